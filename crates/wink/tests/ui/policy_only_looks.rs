use wink::policy::{Decision, policy_fn};
use wink::prelude::*;

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "note")]
struct Note {
    text: String,
}

fn main() {
    let _ = policy_fn("notes", |_, cx| {
        cx.dispatch(Note { text: "asked".into() });
        cx.remember("asked", true);
        Decision::Allow
    });
}
