//! `fake-provider [ADDRESS] < SCRIPT`: serves a script of JSON lines, prints where, and ends when it is told to by a signal.

use std::io::{Read, Write};
use std::process::ExitCode;

use tokio::net::TcpListener;
use wink_fake::{Fake, Script};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}

async fn serve() -> Result<(), String> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|reason| format!("the script cannot be read: {reason}"))?;
    let script = Script::parse(&text)?;
    let failed = |reason| format!("{address} cannot be served: {reason}");
    let listener = TcpListener::bind(&address).await.map_err(failed)?;
    let fake = Fake::on(listener, script).map_err(failed)?;
    println!("{}", fake.url());
    std::io::stdout().flush().map_err(|reason| reason.to_string())?;
    std::future::pending().await
}
