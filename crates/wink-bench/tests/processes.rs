//! The rows that measure programs and loops, in a tiny form. Needs the program `wink` beside this one: `cargo build -p wink-cli`.

use std::process::Command;

use serde_json::Value;

/// Every row has Wink and whom it is compared with, measured.
#[test]
fn the_rows_of_programs_and_loops_do_their_work() -> Result<(), Box<dyn std::error::Error>> {
    let bench = Command::new(env!("CARGO_BIN_EXE_wink-bench"))
        .args(["--json", "--few", "cli", "mcp", "loop"])
        .env_remove("WINK_BENCH_ORIGINAL")
        .env_remove("WINK_BENCH_PYDANTIC_AI")
        .env_remove("WINK_BENCH_LANGGRAPH")
        .output()?;
    let said = String::from_utf8_lossy(&bench.stderr);
    assert!(bench.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&bench.stdout)?;
    let mut measured = Vec::new();
    for row in report["rows"].as_array().into_iter().flatten() {
        let name = row["name"].as_str().unwrap_or_default();
        let fields = row.as_object().into_iter().flatten().filter(|(_, figures)| figures["ns"].is_f64());
        let who: Vec<&str> = fields.map(|(who, _)| who.as_str()).collect();
        measured.push(format!("{name}: {}", who.join(", ")));
        if name.starts_with("mcp/sessions") && cfg!(target_os = "linux") {
            assert!(row["wink"]["bytes"]["resident"].as_u64() > Some(0), "{row}");
        }
    }
    let expected = [
        "cli/call: wink, floor",
        "mcp/stdio/read: wink, floor, rmcp",
        "mcp/stdio/write: wink, floor, rmcp",
        "mcp/http/read: wink, floor, rmcp",
        "mcp/http/write: wink, floor, rmcp",
        "mcp/sessions/turns: wink, rmcp",
        "mcp/sessions/at-once: wink, rmcp",
        "loop/memory/early: wink",
        "loop/memory/late: wink",
        "loop/durable/early: wink",
        "loop/durable/late: wink",
    ];
    assert_eq!(measured, expected);
    Ok(())
}
