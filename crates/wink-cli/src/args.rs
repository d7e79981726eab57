//! What the program can be asked, and how it is told to people. [`read`](mod@read) is how it is read.

mod read;

#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};

#[cfg(unix)]
use crate::frame::{CliError, Exit};

pub(crate) use read::{completions, read};

/// Wink, a tool runtime for LLM agents.
///
/// A model proposes tool calls; Wink decides whether each may run, runs it as
/// one atomic transaction over session state, files and resources, records it,
/// and renders what the model sees.
///
/// State is kept in `.wink` in the workspace, which tools never see.
#[derive(Parser)]
#[command(
    name = "wink",
    version = env!("WINK_VERSION"),
    arg_required_else_help = true,
    disable_help_subcommand = true,
    verbatim_doc_comment,
    after_help = EXIT_CODES
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// The directory to work in [default: .]
    #[arg(long, value_name = "DIR", global = true, value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
    /// The session
    #[arg(long, value_name = "NAME", default_value = "main", global = true, value_parser = session_name)]
    pub(crate) session: String,
    /// The agent file [default: wink.toml in DIR, else the built-in agent]
    #[arg(long, value_name = "FILE", global = true, value_hint = ValueHint::FilePath)]
    pub(crate) agent: Option<PathBuf>,
    /// The overrides of the agent's texts, by their tag [default: the agent file's, else latest]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) tag: Option<String>,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Tell more on standard error; twice for still more [default: WINK_LOG]
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Common {
    /// The directory to work in.
    #[cfg(unix)]
    pub(crate) fn root(&self) -> &Path {
        self.workspace.as_deref().unwrap_or(Path::new("."))
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Watch a session: calls that are denied, undone, replayed, killed and in doubt
    ///
    /// Plays a short agent session and checks it. A script stands in for the
    /// model; the runtime is the real one, on a temporary directory that is
    /// removed at the end: no network, no key. One scene runs commands in a
    /// sandbox, where the machine allows that. It takes a moment.
    ///
    /// Colours are used on a terminal. NO_COLOR and TERM=dumb turn them off,
    /// CLICOLOR_FORCE=1 turns them on.
    #[command(verbatim_doc_comment, after_help = DEMO_EXIT_CODES)]
    Demo,
    /// Call a tool: one transaction in this workspace's session
    ///
    /// Prints what the model would see. If the call fails, is denied or
    /// cancelled (Ctrl-C), everything is as it was before; the log says what
    /// happened. A policy that wants somebody's word asks on the terminal; in a
    /// pipe that is a denial, unless --yes says so beforehand.
    ///
    /// A call that opened sections ends with 0, though the log has it without
    /// success, as `expanded`: it changed nothing but what the model sees.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Call(CallArgs),
    /// Run the agent: from a task to its result, with a model or a script
    ///
    /// Asks the model, makes its calls, each a transaction of this workspace's
    /// session, and prints its last word, or its result as JSON if the agent file
    /// says what that must be. What happens meanwhile is told on standard error.
    ///
    /// Ctrl-C stops it: the call that is on its way is undone, what was done
    /// before stays (`wink log`, `wink undo`), and --resume goes on from there.
    ///
    /// The model is the agent file's ([model]), or the one that --model names:
    ///   anthropic:MODEL    key in ANTHROPIC_API_KEY
    ///   openai:MODEL       key in OPENAI_API_KEY
    ///   openai-chat:MODEL  and whoever speaks the same, with --base-url
    ///                      (LiteLLM, llama.cpp, vLLM, Ollama)
    ///   claude:MODEL       the program claude (Claude Code)
    ///   script:FILE        a recording, or JSON lines, one response each:
    ///                      {"text": …, "tool_calls": [{"id", "name", "arguments"}]}
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Run(RunArgs),
    /// Repeat a recorded run without a model, and say where it differs
    ///
    /// Works on a copy of the workspace, with the run's own changes to files taken
    /// back, and in an empty session. Nothing here is changed. Commands are not
    /// run: what they said and changed is in the recording.
    ///
    /// Compared is what the model is asked, each call as the log has it (but for
    /// when it was and how long it took), what each call leaves in files, and the
    /// session's STATE at the end. Exits with 0 if all that was the same, else
    /// with 1.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Replay(ReplayArgs),
    /// Serve the agent's tools as an MCP server
    ///
    /// Speaks with the client that started it, over standard input and output;
    /// with --http over streamable HTTP, where each session has its own path
    /// (/mcp/NAME) and its own token. Serves until the client closes its end:
    /// calls that are on their way then have five seconds to be answered. Or
    /// until it is told to end (Ctrl-C). What is on its way in the end is
    /// cancelled and undone.
    ///
    /// What goes wrong is told on standard error, more of it with -v or with
    /// WINK_LOG=off, error, warn (as it is), info, debug or trace.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Serve(ServeArgs),
    /// List the tools that the model would be given
    #[command(after_help = EXIT_CODES)]
    Tools {
        /// In which form [default: text, or json with --json]
        #[arg(long, value_enum)]
        format: Option<Format>,
    },
    /// Print the prompt that the model would be given
    #[command(after_help = EXIT_CODES)]
    Prompt {
        /// In which form [default: text, or json with --json]
        #[arg(long, value_enum)]
        format: Option<Format>,
    },
    /// List what happened in the session, oldest first
    #[command(after_help = EXIT_CODES)]
    Log {
        /// Only the last so many
        #[arg(short = 'n', long, value_name = "COUNT")]
        last: Option<usize>,
        /// Only calls of this tool
        #[arg(long, value_name = "NAME")]
        tool: Option<String>,
        /// Only what did not succeed
        #[arg(long)]
        failed: bool,
    },
    /// Show all of one call: arguments, decision, value, what it changed
    #[command(after_help = EXIT_CODES)]
    Show {
        #[command(flatten)]
        call: Which,
    },
    /// Show what a call changed in files, as a unified diff
    ///
    /// What was there before comes from the call's journal; what it left is what
    /// is there now, or what a later call replaced. Of what somebody else has
    /// changed since, only the name is known.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Diff {
        #[command(flatten)]
        call: Which,
    },
    /// Take back what a call changed in files and session
    ///
    /// Refused, and nothing done, when something later changed the same, unless
    /// it is forced. What the call did outside is not undone: the ledger keeps
    /// its entries. The undo is an entry of the log itself, and can be undone.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Undo {
        /// Everything since just before the call, not the call alone
        #[arg(long)]
        to: bool,
        /// Overwrite what something later changed
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        call: Which,
    },
    /// Find out what policies say
    #[command(subcommand, after_help = EXIT_CODES)]
    Policy(PolicyCommand),
    /// Effects outside that are recorded, claimed or in doubt
    #[command(subcommand, after_help = EXIT_CODES)]
    Ledger(LedgerCommand),
    /// Replace texts of the prompt and of tools, without touching the agent or the program
    #[command(subcommand, after_help = EXIT_CODES)]
    Override(OverrideCommand),
    /// Write a commented wink.toml to start from
    #[command(after_help = EXIT_CODES)]
    Init {
        /// Replace the one that is there
        #[arg(long)]
        force: bool,
        /// Print the JSON Schema of agent files, for editors, and write nothing
        #[arg(long)]
        schema: bool,
    },
    /// Find out what works on this machine, and how to get what does not
    #[command(after_help = EXIT_CODES)]
    Doctor {
        /// Look through the whole store, however long that takes, and change nothing
        #[arg(long)]
        deep: bool,
        /// Repair a store that is damaged, from what is whole of it; a copy of it is kept in .wink
        #[arg(long, requires = "deep")]
        repair: bool,
    },
    /// Remove what need not be kept any more
    ///
    /// Effects that no longer count, and the memory of which changes to files
    /// were committed, if it is older than --keep-days: calls that are older
    /// cannot be undone any more. The log is kept for good.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Gc {
        /// For how many days calls can be undone
        #[arg(long, value_name = "DAYS", default_value_t = 90)]
        keep_days: u32,
    },
    /// Print a completion script for a shell
    #[command(after_help = EXIT_CODES)]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// A call to make.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool's name
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,
    /// The arguments, as JSON; `-` reads them from standard input [default: none]
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) arguments: Option<String>,
    /// Approve whatever a policy asks
    #[arg(long)]
    pub(crate) yes: bool,
    /// The id by which the call is known to whoever makes it [default: a fresh one]
    #[arg(long, value_name = "ID")]
    pub(crate) call_id: Option<String>,
}

/// What to run, and with whom.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What is to be done; `-` reads it from standard input
    #[arg(value_name = "TASK", required_unless_present = "resume")]
    pub(crate) task: Option<String>,
    /// The model, as PROVIDER:MODEL or script:FILE [default: the agent file's]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Where the provider is, or whoever speaks the same; a key is sent there only if --key-env or the agent file names it
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) base_url: Option<String>,
    /// The name of the environment variable that has the key [default: the provider's usual one]
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<String>,
    /// Hold the model's calls to a schema, since it was not made for tools; with openai-chat
    #[arg(long)]
    pub(crate) constrained: bool,
    /// How many responses there may be [default: the agent file's, else 50]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// When it must be over, such as 90s or 1h [default: the agent file's]
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<String>,
    /// How many tokens it may use, in and out together [default: the agent file's]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) budget: Option<i64>,
    /// Record the run into a new file, for `wink replay` and script:FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// Go on with a run that was stopped: the session's last, or the one of this id
    #[arg(long, value_name = "RUN", num_args = 0..=1, require_equals = true, conflicts_with = "task")]
    pub(crate) resume: Option<Option<String>>,
    /// Approve whatever a policy asks
    #[arg(long)]
    pub(crate) yes: bool,
}

/// What to repeat.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The recording
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Keep the copy that it works on in this new directory, to look at [default: one that is removed]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) into: Option<PathBuf>,
    /// Run commands again, also those that reach outside of the workspace
    #[arg(long)]
    pub(crate) outside: bool,
}

/// How to serve.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Serve over HTTP at this address of the machine's own, such as 127.0.0.1:8377, or a port
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// An origin of pages that may call, beside this machine's
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// A name under which the server may be called, beside this machine's
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) allow_host: Vec<String>,
    /// Print the token of the session for --http, and end
    #[arg(long)]
    pub(crate) print_token: bool,
}

/// Which entry of the log.
#[derive(Debug, Clone, Args)]
pub(crate) struct Which {
    /// A seq of `wink log`, an invocation id, a call id (the latest; `id:5` if it is a number), or `last` (the latest call)
    #[arg(value_name = "CALL")]
    pub(crate) call: String,
}

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what every policy would answer to a call, and why; nothing is run
    ///
    /// Exits with 0 if the call would run without anybody being asked, else
    /// with 1.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Check {
        /// The tool's name
        #[arg(value_name = "TOOL")]
        tool: String,
        /// The arguments, as JSON; `-` reads them from standard input [default: none]
        #[arg(value_name = "JSON", allow_hyphen_values = true)]
        arguments: Option<String>,
    },
}

#[derive(Subcommand)]
pub(crate) enum LedgerCommand {
    /// List the effects of all sessions
    #[command(after_help = EXIT_CODES)]
    List {
        /// Only those of which nobody knows whether they happened
        #[arg(long)]
        in_doubt: bool,
    },
    /// Say of an effect in doubt whether it happened
    ///
    /// Look into the books of the other side first. If it happened, later calls
    /// with this key get the message and value given here; if not, the next one
    /// runs.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Resolve {
        /// The key, or as much of its start as only one has, with its last part alone or all of it
        #[arg(value_name = "KEY")]
        key: String,
        #[command(flatten)]
        verdict: Verdict,
        /// What later calls are told, if it happened
        #[arg(
            long,
            value_name = "TEXT",
            requires = "happened",
            default_value = "settled by hand: it happened"
        )]
        message: String,
        /// The value that later calls get, as JSON, if it happened
        #[arg(long, value_name = "JSON", requires = "happened")]
        value: Option<String>,
    },
    /// Acknowledge that the store has lost commits, so that tools with a key run again
    ///
    /// What was lost is told whenever the workspace is opened: effects that
    /// happened may not be in the ledger any more. Look into the books of the
    /// other side first. What was left of the database and of its log is in
    /// .wink/wink.db-lost-*. Refused while a call is running.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    AcknowledgeLoss,
}

#[derive(Subcommand)]
pub(crate) enum OverrideCommand {
    /// Write the texts that can be replaced into a file, to be edited
    ///
    /// The file is in wink-overrides, beside the agent file, and is meant for
    /// version control. In one that is there, what was edited stays, what is
    /// missing is added, and what nobody edited is brought up to date. With --tag
    /// it is another file, which counts where the same --tag is given, or where
    /// the agent file says so (`overrides` in [agent]).
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    Seed,
    /// List the texts that can be replaced, and which are
    ///
    /// `fresh` ones count. A `stale` one was written for another text than is
    /// there now, an `unknown` one for a part that is not there: both are left
    /// out.
    #[command(verbatim_doc_comment, after_help = EXIT_CODES)]
    List,
    /// Show how the texts in the file differ from those that they replace
    #[command(after_help = EXIT_CODES)]
    Diff,
}

/// Whether an effect happened.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Verdict {
    /// The effect happened
    #[arg(long)]
    pub(crate) happened: bool,
    /// It did not
    #[arg(long)]
    pub(crate) did_not_happen: bool,
}

/// In which form tools and prompt are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// Everything that is known, as JSON
    Json,
    /// As OpenAI's API takes it
    Openai,
    /// As Anthropic's API takes it
    Anthropic,
    /// As an MCP server gives it
    Mcp,
}

impl Format {
    /// The form that was asked for.
    ///
    /// # Errors
    /// When it is for people and for programs.
    #[cfg(unix)]
    pub(crate) fn asked(format: Option<Self>, json: bool) -> Result<Self, CliError> {
        match (format, json) {
            (Some(Self::Text), true) => {
                Err(CliError::new(Exit::Usage, "--format text and --json do not go together")
                    .hint("leave one of them out"))
            }
            (None, true) => Ok(Self::Json),
            (format, _) => Ok(format.unwrap_or(Self::Text)),
        }
    }
}

fn session_name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.chars().any(char::is_control) {
        true => Err("a session has a name of at least one character, without control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the tool's result is a failure, or what was asked for was refused
  2  usage or configuration: the command line, the agent file, the workspace
  3  the evaluation ended: deadline, budget, turns, a provider that does not
     answer, or cancelled (Ctrl-C)
  4  internal: the store failed, or something could not be put back";

const DEMO_EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the demo failed: one of its own checks did, or its output could not be
     written; standard error says which, and where its directory is
  2  the command line was not understood";
