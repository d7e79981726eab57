//! What is measured: every row of the benchmark, and how each contender does it.
//!
//! A contender offers one function, `make(row)`: it sets the row up, does the work once to see that the answer
//! is right, and gives back a closure that does the work once per run. `None` means that the contender has
//! nothing to show in that row.

use std::str::FromStr;

#[cfg(test)]
mod tests;

mod cli;
mod durable;
mod floor;
mod git;
mod host;
pub(crate) mod loops;
pub(crate) mod mcp;
mod place;
pub(crate) mod program;
mod rig;
mod rmcp;
mod typed_call;
mod wink;

/// The work of one row, done once per run.
pub(crate) type Case = Box<dyn FnMut()>;

/// A row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// The typed call whose handler touches nothing.
    CallEmpty,
    /// The same, whose handler records one event and writes one small file in memory.
    CallWrite,
    /// `call/write` with a great deal of state, history and files around it.
    CallLarge,
    /// `call/write` that fails after its writes, which are taken back.
    CallFail,
    /// One question about the history of the session: the one that a policy's context asks for a policy.
    PolicyHistory,
    /// A call that dispatches one event, in a session whose store is on disk.
    DurableCall,
    /// The same with a claim in the ledger.
    DurableClaim,
    /// The same by sixty-four callers at a time, each on a session of its own; per call.
    DurableMany,
    /// The same by sixty-four callers of one session, who take turns; per call.
    DurableOne,
    /// A call that changes five files of a directory on disk.
    Host(Way, End, Size),
    /// The program from its start to its end, for one call in a workspace that is there.
    CliCall,
    /// One call over MCP, of a server that is a process of its own.
    Mcp(Over, Work),
    /// The same over HTTP, with as many sessions open as one server is meant to have.
    McpSessions(Order),
    /// A turn of a loop, with a model that takes no time.
    Loop(Keeping, Part),
}

/// How a row is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In batches by the clock, and by instructions.
    InMemory,
    /// By the clock alone, run by run, since the disk is waited for; rows that are compared take turns.
    OnDisk,
    /// The same with programs that are started for it.
    Processes,
    /// By itself: a run has many clients, each with a clock of its own.
    Sessions,
    /// By itself: a run has many turns, each of which is timed.
    Loops,
}

/// What becomes of what is said in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// It goes with the process.
    Memory,
    /// It is in a database before anything follows from it.
    Durable,
}

impl Keeping {
    pub(crate) const ALL: [Keeping; 2] = [Keeping::Memory, Keeping::Durable];
}

/// Which turns of a long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The first ones.
    Early,
    /// The last ones, with all the history that there is by then.
    Late,
}

/// What a server is spoken with over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Stdio,
    Http,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A tool without arguments that changes nothing and touches no file.
    Read,
    /// A tool that replaces a small file.
    Write,
}

/// In which order many clients call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after the other.
    Turns,
    /// All of them at the same moment.
    AtOnce,
}

/// By what a call changes files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The runtime's own files.
    Api,
    /// A command on an overlay of the workspace.
    Overlay,
    /// A command in the workspace itself, which is looked through before and after.
    Scan,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
}

/// How many files the workspace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Size {
    Small,
    Large,
}

impl Size {
    pub(crate) fn files(self) -> usize {
        match self {
            Size::Small => 1_000,
            Size::Large => 50_000,
        }
    }
}

impl Row {
    pub(crate) const ALL: [Row; 32] = [
        Row::CallEmpty,
        Row::CallWrite,
        Row::CallLarge,
        Row::CallFail,
        Row::PolicyHistory,
        Row::DurableCall,
        Row::DurableClaim,
        Row::DurableMany,
        Row::DurableOne,
        Row::Host(Way::Api, End::Commit, Size::Small),
        Row::Host(Way::Api, End::Commit, Size::Large),
        Row::Host(Way::Api, End::Rollback, Size::Small),
        Row::Host(Way::Api, End::Rollback, Size::Large),
        Row::Host(Way::Overlay, End::Commit, Size::Small),
        Row::Host(Way::Overlay, End::Commit, Size::Large),
        Row::Host(Way::Overlay, End::Rollback, Size::Small),
        Row::Host(Way::Overlay, End::Rollback, Size::Large),
        Row::Host(Way::Scan, End::Commit, Size::Small),
        Row::Host(Way::Scan, End::Commit, Size::Large),
        Row::Host(Way::Scan, End::Rollback, Size::Small),
        Row::Host(Way::Scan, End::Rollback, Size::Large),
        Row::CliCall,
        Row::Mcp(Over::Stdio, Work::Read),
        Row::Mcp(Over::Stdio, Work::Write),
        Row::Mcp(Over::Http, Work::Read),
        Row::Mcp(Over::Http, Work::Write),
        Row::McpSessions(Order::Turns),
        Row::McpSessions(Order::AtOnce),
        Row::Loop(Keeping::Memory, Part::Early),
        Row::Loop(Keeping::Memory, Part::Late),
        Row::Loop(Keeping::Durable, Part::Early),
        Row::Loop(Keeping::Durable, Part::Late),
    ];

    pub(crate) fn kind(self) -> Kind {
        match self {
            Row::CallEmpty | Row::CallWrite | Row::CallLarge | Row::CallFail | Row::PolicyHistory => {
                Kind::InMemory
            }
            Row::DurableCall | Row::DurableClaim | Row::DurableMany | Row::DurableOne | Row::Host(..) => {
                Kind::OnDisk
            }
            Row::CliCall | Row::Mcp(..) => Kind::Processes,
            Row::McpSessions(_) => Kind::Sessions,
            Row::Loop(..) => Kind::Loops,
        }
    }

    /// Rows that are compared with each other, and so take turns.
    pub(crate) fn family(self) -> &'static str {
        match self {
            Row::Host(Way::Api, End::Commit, _) => "host/api/commit",
            Row::Host(Way::Api, End::Rollback, _) => "host/api/rollback",
            Row::Host(Way::Overlay, End::Commit, _) => "host/overlay/commit",
            Row::Host(Way::Overlay, End::Rollback, _) => "host/overlay/rollback",
            Row::Host(Way::Scan, End::Commit, _) => "host/scan/commit",
            Row::Host(Way::Scan, End::Rollback, _) => "host/scan/rollback",
            row => row.name(),
        }
    }

    /// How many runs come before those that are timed, and how many are timed. A database's log grows at first, and is
    /// written again from its start later, which is what lasts.
    pub(crate) fn runs(self) -> (usize, usize) {
        match self {
            Row::DurableMany | Row::DurableOne => (3, 21),
            Row::Host(..) => (5, 41),
            Row::CliCall => (3, 61),
            Row::Mcp(_, Work::Read) => (500, 2_001),
            Row::Mcp(_, Work::Write) => (50, 501),
            _ => (500, 301),
        }
    }

    /// The rows that a name means: its own, or all of a group.
    pub(crate) fn named(name: &str) -> Result<Vec<Row>, String> {
        let rows: Vec<Row> = Row::ALL
            .into_iter()
            .filter(|row| {
                row.name().strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .collect();
        match rows.is_empty() {
            true => name.parse().map(|row| vec![row]),
            false => Ok(rows),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::CallEmpty => "call/empty",
            Row::CallWrite => "call/write",
            Row::CallLarge => "call/large",
            Row::CallFail => "call/fail",
            Row::PolicyHistory => "policy/history",
            Row::DurableCall => "durable/call",
            Row::DurableClaim => "durable/claim",
            Row::DurableMany => "durable/64/sessions",
            Row::DurableOne => "durable/64/one",
            Row::Host(Way::Api, End::Commit, Size::Small) => "host/api/commit/1000",
            Row::Host(Way::Api, End::Commit, Size::Large) => "host/api/commit/50000",
            Row::Host(Way::Api, End::Rollback, Size::Small) => "host/api/rollback/1000",
            Row::Host(Way::Api, End::Rollback, Size::Large) => "host/api/rollback/50000",
            Row::Host(Way::Overlay, End::Commit, Size::Small) => "host/overlay/commit/1000",
            Row::Host(Way::Overlay, End::Commit, Size::Large) => "host/overlay/commit/50000",
            Row::Host(Way::Overlay, End::Rollback, Size::Small) => "host/overlay/rollback/1000",
            Row::Host(Way::Overlay, End::Rollback, Size::Large) => "host/overlay/rollback/50000",
            Row::Host(Way::Scan, End::Commit, Size::Small) => "host/scan/commit/1000",
            Row::Host(Way::Scan, End::Commit, Size::Large) => "host/scan/commit/50000",
            Row::Host(Way::Scan, End::Rollback, Size::Small) => "host/scan/rollback/1000",
            Row::Host(Way::Scan, End::Rollback, Size::Large) => "host/scan/rollback/50000",
            Row::CliCall => "cli/call",
            Row::Mcp(Over::Stdio, Work::Read) => "mcp/stdio/read",
            Row::Mcp(Over::Stdio, Work::Write) => "mcp/stdio/write",
            Row::Mcp(Over::Http, Work::Read) => "mcp/http/read",
            Row::Mcp(Over::Http, Work::Write) => "mcp/http/write",
            Row::McpSessions(Order::Turns) => "mcp/sessions/turns",
            Row::McpSessions(Order::AtOnce) => "mcp/sessions/at-once",
            Row::Loop(Keeping::Memory, Part::Early) => "loop/memory/early",
            Row::Loop(Keeping::Memory, Part::Late) => "loop/memory/late",
            Row::Loop(Keeping::Durable, Part::Early) => "loop/durable/early",
            Row::Loop(Keeping::Durable, Part::Late) => "loop/durable/late",
        }
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        one_of(Row::ALL, Row::name, "row", name)
    }
}

/// Somebody who does the work of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// This project.
    Wink,
    /// The least that the row can cost: no checks, no transaction, no record. Of a program, that it starts and ends; of a
    /// server, rmcp's, that keeps a line about each call on disk.
    Floor,
    /// The tool router of rmcp, called directly; of a server, rmcp's own with a tool of the same name.
    Rmcp,
    /// The tool set of rig.
    Rig,
    /// A snapshot of the workspace before each call, made with git.
    Git,
    /// The smallest program with the Python library that this project comes from.
    Original,
    /// The loop of Pydantic AI's agents.
    PydanticAi,
    /// A graph of LangGraph's with a model and a node of tools.
    LangGraph,
}

impl Contender {
    pub(crate) const ALL: [Contender; 8] = [
        Contender::Wink,
        Contender::Floor,
        Contender::Rmcp,
        Contender::Rig,
        Contender::Git,
        Contender::Original,
        Contender::PydanticAi,
        Contender::LangGraph,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Wink => "wink",
            Contender::Floor => "floor",
            Contender::Rmcp => "rmcp",
            Contender::Rig => "rig",
            Contender::Git => "git",
            Contender::Original => "python",
            Contender::PydanticAi => "pydantic-ai",
            Contender::LangGraph => "langgraph",
        }
    }

    /// How many calls one run of a row is.
    pub(crate) fn calls_in_a_run(self, row: Row) -> u32 {
        match self {
            Contender::Wink => durable::calls_in_a_run(row),
            _ => 1,
        }
    }

    pub(crate) fn make(self, row: Row) -> Option<Case> {
        match (self, row) {
            (_, Row::CliCall) => cli::make(self),
            (_, Row::Mcp(over, work)) => mcp::make(self, over, work),
            (_, Row::McpSessions(_) | Row::Loop(..)) => None,
            (Contender::Wink, Row::Host(way, end, size)) => host::make(way, end, size),
            (Contender::Git, Row::Host(_, end, size)) => git::make(end, size),
            (Contender::Wink, row) if row.kind() == Kind::OnDisk => durable::make(row),
            (Contender::Floor, row) if row.kind() == Kind::OnDisk => durable::bare(row),
            (Contender::Wink, row) => wink::make(row, wink::Around::MUCH),
            (Contender::Floor, row) => floor::make(row),
            (Contender::Rmcp, row) => rmcp::make(row),
            (Contender::Rig, row) => rig::make(row),
            (Contender::Git | Contender::Original | Contender::PydanticAi | Contender::LangGraph, _) => None,
        }
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        one_of(Contender::ALL, Contender::name, "contender", name)
    }
}

fn one_of<T: Copy, const N: usize>(
    all: [T; N],
    name_of: fn(T) -> &'static str,
    what: &str,
    name: &str,
) -> Result<T, String> {
    all.into_iter()
        .find(|one| name_of(*one) == name)
        .ok_or_else(|| format!("`{name}` is not a {what}; use one of: {}", all.map(name_of).join(", ")))
}
