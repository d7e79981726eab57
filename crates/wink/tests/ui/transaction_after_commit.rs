use wink::prelude::*;
use wink::resource::ResourceContext;
use wink::transaction::Transaction;

async fn twice(session: &Session, resources: &ResourceContext) {
    let transaction = Transaction::begin(session, resources, "twice").await;
    transaction.commit().await.unwrap();
    transaction.rollback().await.unwrap();
}

fn main() {
    let _ = twice;
}
