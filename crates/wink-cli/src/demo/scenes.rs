//! The story, scene by scene. Each makes calls, then says what is true now.

use std::time::{Duration, Instant};

use wink::ledger::Settlement;
use wink::serde_json::{self, json};
use wink::session::Ending;
use wink::suites::PlanStatus;

use super::bank::Receipt;
use super::commands::Commands;
use super::stage::{Stage, Tree, head, row_name, verdict};
use super::tools::{SALES, Sight};
use super::{DemoError, Doing, victim};
use crate::term::{BAD, BOLD, DIM, GOOD, ODD, PLAIN, Span, cut, span};

/// Plays everything.
pub(super) async fn play(stage: &mut Stage) -> Result<(), DemoError> {
    #[expect(clippy::disallowed_methods, reason = "how long it took to whoever watches")]
    let began = Instant::now();
    stage.screen.heading("", "A session of a small shop")?;
    stage.screen.text(
        DIM,
        "A script stands in for the model. Everything else is real: the runtime, its database, and a temporary \
         directory that is the shop's workspace. Each answer is what a model would get, and each line with a check \
         mark was read back, from disk where it is about files, and compared.",
    )?;
    let place = stage.place.workspace().display().to_string();
    stage.screen.labelled(&[span("Workspace: ", DIM)], span(place, PLAIN))?;
    plan(stage).await?;
    read_before_write(stage).await?;
    undone(stage).await?;
    command(stage).await?;
    paid_once(stage).await?;
    let before = killed(stage)?;
    whole(stage, &before).await?;
    log(stage).await?;
    let text = format!("{} checks passed in {:.1?}.", stage.checks(), began.elapsed());
    stage.screen.blank()?;
    stage.screen.text(GOOD.bold(), &text)?;
    Ok(())
}

async fn plan(stage: &mut Stage) -> Result<(), DemoError> {
    stage.scene("1", "A plan", "The model says what it is going to do. The plan is state of the session.")?;
    let arguments = json!({
        "objective": "Raise the price of lamps; serve orders 17 and 18",
        "initial_steps": ["Raise the price", "Ship order 17", "Charge both orders"],
    });
    stage.call("planning_setup_plan", arguments).await?;
    let plan = stage.plan();
    let claim = format!("the session has a plan of {} steps, {} done", plan.steps.len(), plan.done());
    stage.check(claim, (plan.steps.len(), plan.done()), (3, 0))
}

async fn read_before_write(stage: &mut Stage) -> Result<(), DemoError> {
    stage.scene(
        "2",
        "Read before write",
        "A model that writes a file it has not read destroys what it does not know. A policy of the file tools \
         denies that; the answer says what to do instead.",
    )?;
    let before = stage.read("prices.txt")?;
    let denied = stage.call("write_file", json!({ "path": "prices.txt", "content": "lamp 24.00\n" })).await?;
    let policy = denied.decisions.last().map_or("no policy", |decision| &*decision.policy);
    stage.check(format!("the policy {policy} denied the call"), denied.ending, Ending::Denied)?;
    let now = stage.read("prices.txt")?;
    stage.check(format!("prices.txt still has {} lines", now.lines().count()), now, before)?;

    stage.screen.blank()?;
    stage.call("read_file", json!({ "path": "prices.txt" })).await?;
    let edit = json!({ "path": "prices.txt", "old_string": "lamp 19.00", "new_string": "lamp 24.00" });
    stage.call("edit_file", edit).await?;
    let now = stage.read("prices.txt")?;
    let claim = format!("prices.txt is now {now:?}");
    stage.check(claim, now.as_str(), "rug 80.00\nlamp 24.00\n")?;
    step_done(stage, 1).await
}

async fn undone(stage: &mut Stage) -> Result<(), DemoError> {
    stage.scene(
        "3",
        "Half done, undone",
        "ship_order takes a lamp from stock, marks the order, writes a label and records a shipment. Then the \
         carrier refuses. The tool has no code that cleans up.",
    )?;
    let before = stage.sight(17)?;
    let tree = stage.tree()?;
    let failed = stage.call("ship_order", json!({ "order": 17, "carrier": "bike" })).await?;
    let after = stage.sight(17)?;
    let Some(middle) = failed.value.typed::<Sight>() else {
        return stage.check("the failed call kept what its handler saw", false, true);
    };
    stage.screen.blank()?;
    stage.screen.table(&sights(&before, &middle, &after))?;
    stage.screen.blank()?;
    let changed = Sight {
        shipments: before.shipments + 1,
        order_file: "shipped".to_owned(),
        label_file: Some("by bike".to_owned()),
        lamps: before.lamps - 1,
    };
    stage.check("the handler saw all four of its own changes", middle, changed)?;
    stage.check("session and stock are as before the call", after, before.clone())?;
    let claim = format!("so are all {} paths on disk, byte for byte", tree.len());
    let now = stage.tree()?;
    stage.check(claim, now, tree)?;

    stage.screen.blank()?;
    let shipped = stage.call("ship_order", json!({ "order": 17, "carrier": "van" })).await?;
    let after = stage.sight(17)?;
    stage.check("this time all four changes were kept, together", Some(after), shipped.value.typed())?;
    step_done(stage, 2).await
}

/// What there was to see before a call, in it, and after it.
fn sights(before: &Sight, middle: &Sight, after: &Sight) -> Vec<Vec<Span>> {
    let row = |name: &str, show: fn(&Sight) -> String| {
        let [before, middle, after] = [before, middle, after].map(show);
        let style = if middle == before { PLAIN } else { ODD };
        vec![row_name(name), span(before, PLAIN), span(middle, style), span(after, PLAIN)]
    };
    vec![
        vec![head(""), head("before"), head("seen by the handler"), head("after")],
        row("shipments (slice)", |sight| sight.shipments.to_string()),
        row("orders/17.txt", |sight| sight.order_file.clone()),
        row("labels/17.txt", |sight| sight.label_file.clone().unwrap_or_else(|| "no such file".to_owned())),
        row("lamps (resource)", |sight| sight.lamps.to_string()),
    ]
}

/// A command that wrecks the workspace and fails, and one that does something useful.
pub(super) async fn command(stage: &mut Stage) -> Result<(), DemoError> {
    stage.scene(
        "4",
        "A command that fails",
        "A program writes where it likes, so what it does to the workspace is captured: taken over if the call \
         succeeds, and forgotten if not.",
    )?;
    match stage.commands.capture(stage.workspace()) {
        Ok(capture) => {
            let text = format!("Captured {capture}. The program runs in a sandbox without network.");
            stage.screen.text(DIM, &text)?;
        }
        Err(reason) => return no_commands(stage, &reason),
    }
    let before = stage.tree()?;
    let wreck = "rm -r orders labels; echo free > prices.txt; ls; exit 3";
    let arguments = json!({ "command": ["sh", "-c", wreck], "undo_on_failure": true });
    let failed = stage.call("shell_execute", arguments).await?;
    let Some(printed) = Commands::printed(&failed) else {
        return no_commands(stage, "the answer above says why");
    };
    let seen: Vec<&str> = printed.lines().collect();
    let claim = format!("all that the command still saw, when it had done that: {}", seen.join(", "));
    stage.check(claim, seen, vec!["prices.txt", "sales.txt"])?;
    let now = stage.tree()?;
    stage.check(format!("on disk all {} paths are as before, byte for byte", now.len()), now, before)?;

    stage.screen.blank()?;
    let sort = json!({ "command": ["sort", "-o", "prices.txt", "prices.txt"] });
    stage.call("shell_execute", sort).await?;
    let now = stage.read("prices.txt")?;
    stage.check(format!("prices.txt is now {now:?}"), now.as_str(), "lamp 24.00\nrug 80.00\n")
}

fn no_commands(stage: &mut Stage, reason: &str) -> Result<(), DemoError> {
    let text = format!("No commands can be run on this machine: {reason}. This scene is left out.");
    Ok(stage.screen.text(ODD, &text)?)
}

async fn paid_once(stage: &mut Stage) -> Result<(), DemoError> {
    stage.scene(
        "5",
        "Paid once",
        "A charge cannot be rolled back, so it must not happen twice. charge_card has an idempotency key, made from \
         its arguments. The model loses the answer and tries again.",
    )?;
    let arguments = json!({ "order": 17, "cents": 2400 });
    let first = stage.call("charge_card", arguments.clone()).await?;
    let second = stage.call("charge_card", arguments).await?;
    let charges = stage.charges()?;
    stage.check(format!("the bank counts {}", counted(charges.len(), "charge")), charges.len(), 1)?;
    let replayed = (first.replayed, second.replayed);
    stage.check("the second answer came from the ledger, and is marked so", replayed, (false, true))?;
    let receipt = first.value.typed::<Receipt>();
    stage.check("both calls gave the same receipt", second.value.typed(), receipt)?;
    let sales = stage.read(SALES)?;
    stage.check("it was booked once", sales.as_str(), "16: 19.00 EUR\n17: 24.00 EUR\n")
}

/// Returns what there was before.
fn killed(stage: &mut Stage) -> Result<Tree, DemoError> {
    stage.scene(
        "6",
        "Killed half-way",
        "Another process opens the same workspace and charges order 18: it takes the money, then changes three \
         files. It is killed (SIGKILL) in the middle of its commit. This is what is on disk then.",
    )?;
    let before = stage.tree()?;
    let arguments = order_18();
    stage.call_elsewhere("charge_card", &arguments)?;
    victim::killed_in(&stage.place, "charge_card", &arguments)?;
    let now = stage.tree()?;
    stage.screen.labelled(&[span("← ", BAD)], span("killed", BAD.bold()))?;
    stage.screen.blank()?;
    stage.screen.table(&payment(("before", &before), ("on disk now", &now)))?;
    stage.screen.blank()?;
    let changed = PAYMENT.iter().filter(|path| now.get(**path) != before.get(**path)).count();
    stage.check(format!("half done: {changed} of 3 files are changed"), changed, 2)?;
    let charges = stage.charges()?.len();
    stage.check(format!("the bank counts {}", counted(charges, "charge")), charges, 2)?;
    Ok(before)
}

async fn whole(stage: &mut Stage, before: &Tree) -> Result<(), DemoError> {
    stage.scene(
        "7",
        "Made whole",
        "The workspace is opened again. What was not committed is taken back, the call has its entry in the log, and \
         what nobody here can know, whether the bank charged, is in doubt.",
    )?;
    let half = stage.tree()?;
    stage.reopen().await?;
    let now = stage.tree()?;
    stage.screen.table(&payment(("killed", &half), ("opened again", &now)))?;
    stage.screen.blank()?;
    let undone = stage.workspace().recovered().map_or(0, |recovered| recovered.rolled_back.len());
    stage.check(format!("opening took back {}", counted(undone, "unfinished change")), undone, 1)?;
    stage.check(format!("all {} paths are as before, byte for byte", now.len()), &now, before)?;
    let last = stage.log().pop();
    let told =
        last.as_ref().map_or(String::new(), |event| format!("{} was {}", event.tool, verdict(event).0));
    stage.check(
        format!("the log has it: {told}"),
        last.map(|event| event.ending),
        Some(Ending::Interrupted),
    )?;

    stage.screen.blank()?;
    let again = stage.call("charge_card", order_18()).await?;
    stage.check("the retry was refused", again.ending, Ending::InDoubt)?;
    let charges = stage.charges()?;
    stage.check(format!("the bank still counts {}", counted(charges.len(), "charge")), charges.len(), 2)?;
    let doubts = stage.ledger().in_doubt().await.doing("read the ledger")?;
    let key = cut(doubts.first().map_or("nothing", |doubt| &doubt.key), 34);
    stage.check(format!("the ledger has it in doubt: {key}"), doubts.len(), 1)?;

    stage.screen.blank()?;
    stage
        .screen
        .text(DIM, "Somebody looks into the bank's books, finds the charge and settles the entry.")?;
    for doubt in &doubts {
        let found = charges.iter().find(|charge| charge.order == 18);
        let settlement = match found.map(serde_json::to_value).transpose().doing("read the bank's books")? {
            Some(value) => Settlement::Happened {
                message: String::new(),
                value: Some(value),
                exclude_value_from_context: false,
            },
            None => Settlement::DidNotHappen,
        };
        stage.ledger().settle(&doubt.key, settlement).await.doing("settle an entry")?;
    }
    let settled = stage.call("charge_card", order_18()).await?;
    let receipt = charges.last().cloned();
    stage.check("the model has its receipt", settled.value.typed::<Receipt>(), receipt.clone())?;
    let count = stage.charges()?.len();
    stage.check(format!("the bank still counts {}", counted(count, "charge")), count, 2)?;

    stage.screen.blank()?;
    stage
        .screen
        .text(DIM, "A replay gives the answer. The files were taken back, so the model books the payment.")?;
    stage.call("book_payment", json!({ "receipt": receipt })).await?;
    let now = stage.tree()?;
    let changed = PAYMENT.iter().filter(|path| now.get(**path) != before.get(**path)).count();
    stage.check(format!("{changed} of 3 files are changed"), changed, 3)?;
    step_done(stage, 3).await?;
    stage.check("the plan is completed", stage.plan().status, PlanStatus::Completed)
}

fn order_18() -> serde_json::Value {
    json!({ "order": 18, "cents": 2400 })
}

/// The files that the payment of order 18 changes.
const PAYMENT: [&str; 3] = ["invoices/18.txt", "orders/18.txt", SALES];

/// These files at two moments.
fn payment(first: (&str, &Tree), second: (&str, &Tree)) -> Vec<Vec<Span>> {
    let text = |tree: &Tree, path: &str| match tree.get(path) {
        Some(Some(text)) => text.trim_end().replace('\n', "; "),
        Some(None) => "a directory".to_owned(),
        None => "no such file".to_owned(),
    };
    let mut rows = vec![vec![head(""), head(first.0), head(second.0)]];
    for path in PAYMENT {
        let (was, is) = (text(first.1, path), text(second.1, path));
        let style = if was == is { PLAIN } else { ODD };
        rows.push(vec![row_name(path), span(was, PLAIN), span(is, style)]);
    }
    rows
}

async fn log(stage: &mut Stage) -> Result<(), DemoError> {
    stage.scene(
        "8",
        "The log",
        "Every call has exactly one entry, whatever became of it and of its process. Nothing here was rolled back.",
    )?;
    let events = stage.log();
    let mut rows = vec![["", "tool", "ended", "   took", "answer"].map(head).to_vec()];
    for (number, event) in (1..).zip(&events) {
        let (word, style) = verdict(event);
        rows.push(vec![
            span(format!("{number:>2}"), DIM),
            span(&*event.tool, BOLD),
            span(word, style),
            span(short(event.duration), DIM),
            span(&*event.rendered, PLAIN),
        ]);
    }
    stage.screen.table(&rows)?;
    stage.screen.blank()?;
    let calls = stage.calls();
    stage.check(format!("{calls} calls, {} entries", events.len()), events.len(), calls)?;
    let failed: Vec<_> = events.iter().filter(|event| !event.success).collect();
    let words: Vec<String> = failed.iter().map(|event| verdict(event).0).collect();
    let claim = format!("{} succeeded; the others: {}", calls - words.len(), words.join(", "));
    // Not every machine runs commands.
    let everywhere = failed.iter().filter(|event| &*event.tool != "shell_execute");
    let endings: Vec<Ending> = everywhere.map(|event| event.ending).collect();
    stage.check(claim, endings, vec![Ending::Denied, Ending::Failed, Ending::Interrupted, Ending::InDoubt])
}

/// The model ticks off a step of its plan.
async fn step_done(stage: &mut Stage, step: usize) -> Result<(), DemoError> {
    stage.screen.blank()?;
    stage.call_briefly("planning_update_step", json!({ "step_id": step, "status": "done" })).await?;
    let done = stage.plan().done();
    stage.check(format!("{done} of {} steps are done", stage.plan().steps.len()), done, step)
}

/// `1 charge`, `2 charges`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A duration in seven columns.
fn short(duration: Duration) -> String {
    let (micros, millis) = (duration.as_micros(), duration.as_millis());
    match millis {
        0..10 => format!("{micros:>4} µs"),
        10..10_000 => format!("{millis:>4} ms"),
        _ => format!("{:>4} s ", duration.as_secs()),
    }
}
