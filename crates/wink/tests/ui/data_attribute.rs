use wink::prelude::*;

#[data]
fn function() {}

#[data(clone)]
struct Cloned;

fn main() {}
