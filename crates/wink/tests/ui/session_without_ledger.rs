use wink::prelude::*;

fn main() {
    // A session without a store, and so without a ledger, cannot be asked for.
    let _ = Session::builder().store(None);
}
