//! Rendering of any section tree, against a simple model of numbering, disclosure and tool order.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use proptest::prelude::*;
use wink::prelude::*;
use wink::prompt::{Hidden, SectionVisibility};

/// A section, as the model of rendering knows it. Keys and tool names follow from its place.
#[derive(Debug, Clone)]
struct Plan {
    enabled: bool,
    visibility: Visibility,
    /// What the session says.
    said: Option<Visibility>,
    tools: usize,
    children: Vec<Plan>,
}

fn visibility() -> impl Strategy<Value = Visibility> {
    prop_oneof![3 => Just(Visibility::Full), 1 => Just(Visibility::Summary)]
}

fn plan() -> impl Strategy<Value = Plan> {
    let leaf =
        || (prop::bool::weighted(0.8), visibility(), prop::option::weighted(0.3, visibility()), 0..3_usize);
    let build =
        |((enabled, visibility, said, tools), children)| Plan { enabled, visibility, said, tools, children };
    (leaf(), Just(Vec::new()))
        .prop_map(build)
        .prop_recursive(4, 24, 4, move |inner| (leaf(), prop::collection::vec(inner, 0..4)).prop_map(build))
}

async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("done")
}

fn path(above: &str, at: usize) -> String {
    if above.is_empty() { format!("s{at}") } else { format!("{above}.s{at}") }
}

fn tool_names<'a>(plan: &Plan, path: &'a str) -> impl Iterator<Item = String> + use<'a> {
    (0..plan.tools).map(move |at| format!("{}_t{at}", path.replace('.', "-")))
}

fn section(plan: &Plan, above: &str, at: usize) -> Section {
    let path = path(above, at);
    let enabled = plan.enabled;
    let section = Section::tools(format!("s{at}"), format!("Title {path}"))
        .body(format!("Body {path}."))
        .summary(format!("Summary {path}."))
        .visibility(plan.visibility)
        .enabled_when(move |_| enabled)
        .with_tools(tool_names(plan, &path).map(|name| Tool::new(name, "Nothing.", nothing)));
    plan.children
        .iter()
        .enumerate()
        .fold(section, |section, (at, child)| section.child(self::section(child, &path, at)))
}

fn say(plan: &Plan, above: &str, at: usize, session: &Session) {
    let path = path(above, at);
    plan.children.iter().enumerate().for_each(|(at, child)| say(child, &path, at, session));
    if let Some(visibility) = plan.said {
        assert!(session.dispatch(SectionVisibility { key: path, visibility }).is_ok());
    }
}

/// What the model expects.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    blocks: Vec<String>,
    tools: Vec<String>,
    closed: Vec<String>,
    disabled: Vec<(String, String)>,
    shut: Vec<(String, String)>,
}

fn all_tools(plan: &Plan, path: &str) -> Vec<String> {
    let below =
        plan.children.iter().enumerate().flat_map(|(at, child)| all_tools(child, &self::path(path, at)));
    tool_names(plan, path).chain(below).collect()
}

fn expect(plans: &[Plan], above: &str, number: &str, out: &mut Expected) {
    let enabled_before = |at: usize| plans[..at].iter().filter(|plan| plan.enabled).count();
    for (at, plan) in plans.iter().enumerate() {
        let path = path(above, at);
        if !plan.enabled {
            out.disabled.extend(all_tools(plan, &path).into_iter().map(|tool| (tool, path.clone())));
            continue;
        }
        let number = format!("{number}{}.", enabled_before(at) + 1);
        let hashes = "#".repeat((number.matches('.').count() + 1).min(6));
        out.blocks.push(format!("{hashes} {number} Title {path}"));
        match plan.said.unwrap_or(plan.visibility) {
            Visibility::Full => {
                out.blocks.push(format!("Body {path}."));
                out.tools.extend(tool_names(plan, &path));
                expect(&plan.children, &path, &number, out);
            }
            Visibility::Summary => {
                out.blocks.push(format!("Summary {path}."));
                let tools = all_tools(plan, &path);
                out.blocks.push(if tools.is_empty() {
                    format!("[Closed. To read it, call `read_section` with section_key \"{path}\".]")
                } else {
                    format!(
                        "[Closed. To read it and use its tools, call `open_sections` with section_keys [\"{path}\"].]"
                    )
                });
                out.shut.extend(tools.into_iter().map(|tool| (tool, path.clone())));
                out.closed.push(path);
            }
        }
    }
}

// cases 12, 13, 212, 218
proptest! {
    #[test]
    fn any_tree_renders_as_the_model_says(plans in prop::collection::vec(plan(), 0..4)) {
        let builder = plans.iter().enumerate().fold(
            PromptTemplate::builder("tests", "model"),
            |builder, (at, plan)| builder.section(section(plan, "", at)),
        );
        let prompt = builder.build().unwrap().prompt();
        let session = Session::new();
        plans.iter().enumerate().for_each(|(at, plan)| say(plan, "", at, &session));
        let mut expected = Expected::default();
        expect(&plans, "", "", &mut expected);
        if !expected.closed.is_empty() {
            expected.tools.extend(["open_sections".to_owned(), "read_section".to_owned()]);
        }

        let rendered = prompt.render(&session).unwrap();
        prop_assert_eq!(rendered.text(), expected.blocks.join("\n\n"));
        let tools: Vec<String> = rendered.tools().iter().map(|placed| placed.name().to_string()).collect();
        prop_assert_eq!(&tools, &expected.tools);
        let listed: Vec<String> =
            prompt.tools(&session).unwrap().iter().map(|tool| tool.name().to_string()).collect();
        prop_assert_eq!(&listed, &expected.tools);
        let closed: Vec<String> = rendered.closed_sections().iter().map(ToString::to_string).collect();
        prop_assert_eq!(closed, expected.closed);
        for name in &expected.tools {
            prop_assert_eq!(rendered.find(name).unwrap().name().to_string(), name.clone());
            prop_assert_eq!(rendered.hidden(name), None);
        }
        for (name, section) in expected.disabled {
            prop_assert!(rendered.find(&name).is_none());
            prop_assert_eq!(rendered.hidden(&name), Some(&Hidden::Disabled { section: section.into() }));
        }
        for (name, section) in expected.shut {
            prop_assert!(rendered.find(&name).is_none());
            prop_assert_eq!(rendered.hidden(&name), Some(&Hidden::Closed { section: section.into() }));
        }
        // Rendering changes nothing: the same again.
        let again = prompt.render(&session).unwrap();
        prop_assert_eq!(again.text(), rendered.text());
    }
}
