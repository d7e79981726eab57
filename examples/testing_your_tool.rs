//! A tool of your own, put through everything that can go wrong: at every step of its call, before and after the
//! step's work, an error, a panic, a cancellation, a hang and a caller who goes away. Whatever happens, the books
//! balance and the log says what is true.

use std::sync::Arc;
use std::time::Duration;

use wink::executor::{Moment, Step};
use wink::limits::Deadline;
use wink::prelude::*;
use wink::session::{ToolInvoked, upsert_by_key};
use wink::testing::{FakeClock, Fault, FaultPoint, Faults};

#[data]
#[derive(Debug, Clone, PartialEq, SliceType)]
#[slice(name = "account", key = "owner")]
struct Account {
    owner: String,
    cents: u64,
}

/// Move money from one account to another.
#[tool]
async fn transfer(
    from: String,
    to: String,
    cents: u64,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    let accounts = cx.session().slice::<Account>()?;
    let mut payer = Account::clone(&*accounts.get(&from).or_tell(format!("{from} has no account."))?);
    payer.cents =
        payer.cents.checked_sub(cents).or_tell(format!("{from} has only {} cents.", payer.cents))?;
    // Half of the work is done here. Nothing below cleans up: if it fails, this has not happened.
    let _ = cx.session().dispatch(payer)?;
    let accounts = cx.session().slice::<Account>()?;
    let mut payee = Account::clone(&*accounts.get(&to).or_tell(format!("{to} has no account."))?);
    payee.cents += cents;
    let _ = cx.session().dispatch(payee)?;
    Ok(ToolResult::done(format!("{cents} cents from {from} to {to}.")))
}

fn total(session: &Session) -> u64 {
    session.slice::<Account>().iter().map(|account| account.cents).sum()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The panics below are meant; their backtraces would only be in the way.
    std::panic::set_hook(Box::new(|_| {}));
    let section = Section::tools("bank", "Bank")
        .tool(transfer_tool())
        .install(|session| session.register::<Account, Account>(upsert_by_key()));
    let prompt = PromptTemplate::builder("examples", "bank").section(section).build()?.prompt();
    let (mut rolled_back, mut went_through, mut not_reached) = (0, 0, 0);
    for step in Step::ALL {
        for moment in [Moment::Before, Moment::After] {
            for fault in Fault::ALL {
                let clock = FakeClock::new("2026-01-01T00:00:00Z".parse()?);
                let session = Session::builder().clock(Arc::new(clock.clone())).build();
                session.seed(["ada", "bob"].map(|owner| Account { owner: owner.into(), cents: 100 }))?;
                let faults = Faults::with_clock(clock.clone());
                let executor = Executor::builder(&prompt, &session)
                    .hook(Arc::new(faults.clone()))
                    .deadline(Deadline::after(Duration::from_secs(600), &clock)?)
                    .open()
                    .await?;

                let call = ToolCall::new("1", "transfer", r#"{"from": "ada", "to": "bob", "cents": 30}"#);
                let came = faults.run(&executor, call, FaultPoint::new(step, moment, fault)).await;
                let bob = session.slice::<Account>().get("bob").map_or(0, |account| account.cents);
                match (came.hit, bob) {
                    (false, _) => not_reached += 1,
                    (true, 100) => rolled_back += 1,
                    (true, 130) => went_through += 1,
                    (true, cents) => return Err(format!("{step:?} {fault:?}: bob has {cents}").into()),
                }
                // What counts: no cent was lost or made, and the log has one event that says what is true.
                assert_eq!(total(&session), 200, "{step:?} {moment:?} {fault:?}");
                let log = session.slice::<ToolInvoked>().all();
                assert_eq!(log.len(), 1, "{step:?} {moment:?} {fault:?}");
                assert_eq!(log.first().map(|event| event.success), Some(bob == 130));
            }
        }
    }
    println!("{} faults injected into one transfer:", rolled_back + went_through);
    println!("- {rolled_back} times it was rolled back, and both have 100 cents;");
    println!("- {went_through} times it was committed already, and bob has his 30 cents;");
    println!("- 0 times it was anything in between.");
    println!("({not_reached} faults lie on the way of calls that fail by themselves, and were not reached.)");
    Ok(())
}
