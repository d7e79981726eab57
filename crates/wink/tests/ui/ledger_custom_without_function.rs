use wink::ledger::IdempotencyConfig;

fn main() {
    let _ = IdempotencyConfig::custom();
}
