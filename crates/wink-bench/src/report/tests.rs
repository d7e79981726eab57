use super::*;
use crate::cases::Order;
use crate::measure::Timed;

fn figures(instructions: Option<u64>, ns: f64) -> Figures {
    let timed = Timed { median: ns, low: ns - 1.0, high: ns + 2.0, most: ns + 3.0 };
    Figures { instructions, ns: Some(timed), memory: None }
}

#[test]
fn the_json_has_wink_in_every_row_and_peers_where_they_apply() {
    let mut report = Report::default();
    report.add(
        Row::CallEmpty,
        vec![
            (Contender::Wink, figures(Some(12_000), 800.04)),
            (Contender::Floor, figures(Some(6_938), 468.0)),
        ],
    );
    report.add(Row::PolicyHistory, vec![(Contender::Floor, figures(None, 12.26))]);
    let expected = json!({ "rows": [
        {
            "name": "call/empty",
            "wink": { "instructions": 12_000, "ns": 800.0, "ns_spread": [799.0, 802.0], "ns_99": 803.0 },
            "floor": { "instructions": 6_938, "ns": 468.0, "ns_spread": [467.0, 470.0], "ns_99": 471.0 },
        },
        {
            "name": "policy/history",
            "wink": { "instructions": null, "ns": null },
            "floor": { "instructions": null, "ns": 12.3, "ns_spread": [11.3, 14.3], "ns_99": 15.3 },
        },
    ] });
    assert_eq!(report.to_json(), expected);
}

#[test]
fn the_table_judges_by_instructions_and_falls_back_to_time() {
    let mut report = Report::default();
    report.add(
        Row::CallEmpty,
        vec![
            (Contender::Wink, figures(Some(15_000), 100.0)),
            (Contender::Floor, figures(Some(10_000), 100.0)),
            (Contender::Rmcp, figures(Some(14_000), 100.0)),
            (Contender::Rig, figures(None, 400.0)),
        ],
    );
    let expected = "\
row                         who          instructions           ns    tenth .. nine tenths  × floor
call/empty                  wink                15000        100.0           99.0 .. 102.0     1.50
call/empty                  floor               10000        100.0           99.0 .. 102.0     1.00
call/empty                  rmcp                14000        100.0           99.0 .. 102.0     1.40
call/empty                  rig                     -        400.0          399.0 .. 402.0     4.00

row                         target for wink                      measured verdict
call/empty                  ≤ 2 × the floor           1.50 (instructions) met
call/empty                  ≤ 1 × rmcp's router       1.07 (instructions) missed
call/empty                  ≤ 0.5 × rig's tool set              0.25 (ns) met
";
    assert_eq!(report.to_string(), expected);
}

#[test]
fn a_target_without_figures_is_not_met() {
    let mut report = Report::default();
    report.add(Row::PolicyHistory, vec![]);
    let table = report.to_string();
    assert_eq!(
        table.lines().last(),
        Some("policy/history              ≤ 50 ns                                     - not measured")
    );
}

#[test]
fn programs_have_a_table_of_their_own() {
    let mut report = Report::default();
    let memory = Memory { resident: 30 << 20, peak: 41 << 20, of_each: 25 << 10 };
    let served = Figures { memory: Some(memory), ..figures(None, 2_500_000.0) };
    report.add(Row::McpSessions(Order::Turns), vec![(Contender::Wink, served)]);
    let table = report.to_string();
    let expected = "\
row                         who          median µs    99th µs resident MiB  peak MiB KiB a session
mcp/sessions/turns          wink            2500.0     2500.0         30.0      41.0          25.0
";
    assert!(table.contains(expected), "{table}");
    let bytes = json!({ "resident": 31_457_280, "peak": 42_991_616, "of_each_session": 25_600 });
    assert_eq!(report.to_json()["rows"][0]["wink"]["bytes"], bytes);
}
