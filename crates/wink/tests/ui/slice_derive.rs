use wink::prelude::*;

#[derive(Serialize, Deserialize, SliceType)]
struct Unnamed;

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = " plan ")]
struct Spaced;

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "plan", kind = "forever")]
struct OtherKind;

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "plan", version = 0)]
struct Unborn;

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "plan", key = "id")]
struct Keyless {
    title: String,
}

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "plan", key = "id")]
enum NoFields {
    One,
}

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "plan", keyed)]
struct OtherOption;

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "plan")]
struct Generic<T> {
    value: T,
}

fn main() {}
