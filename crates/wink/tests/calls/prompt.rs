//! Prompts: what is checked when one is built or bound, and what is rendered.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::any::type_name;
use std::sync::Arc;

use wink::BoxFuture;
use wink::executor::{Executor, ToolCall};
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use wink::prelude::*;
use wink::prompt::{
    Hidden, PlacedSection, PromptRenderError, PromptValidationError, SectionKind, SessionView,
};
use wink::resource::{Binding, BoxError, ResourceRegistry};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Lookup {
    entity_id: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Entity {
    entity_id: String,
    url: String,
}

async fn lookup(params: Lookup, _: &mut ToolContext) -> ToolResult<Entity> {
    ToolResult::value(Entity { entity_id: params.entity_id, url: "https://example.com".into() })
}

async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("done")
}

fn tool(name: &str) -> Tool<(), ()> {
    Tool::new(name, "Does nothing.", nothing)
}

#[derive(Serialize, JsonSchema)]
struct Guidance {
    primary_tool: String,
    retries: u8,
}

fn guidance(primary_tool: &str) -> Guidance {
    Guidance { primary_tool: primary_tool.into(), retries: 3 }
}

fn build(sections: impl IntoIterator<Item = Section>) -> Result<PromptTemplate, PromptValidationError> {
    sections
        .into_iter()
        .fold(PromptTemplate::builder("tests/prompt", "demo"), |builder, section| builder.section(section))
        .build()
}

fn refused(section: Section) -> PromptValidationError {
    build([section]).unwrap_err()
}

fn text(prompt: &Prompt) -> String {
    prompt.render(&Session::new()).unwrap().text().to_string()
}

fn names(prompt: &Prompt, session: &Session) -> Vec<String> {
    prompt.tools(session).unwrap().iter().map(|tool| tool.name().to_string()).collect()
}

fn error(
    section: &str,
    tool: Option<&str>,
    params: Option<&'static str>,
    reason: &str,
) -> PromptValidationError {
    PromptValidationError {
        section: section.into(),
        tool: tool.map(Into::into),
        params,
        reason: reason.into(),
    }
}

// case 5
#[test]
fn a_tool_name_belongs_to_one_section() {
    let inner = Section::tools("inner", "Inner").tool(tool("same"));
    let error_found = build([
        Section::markdown("first", "First").tool(tool("same")),
        Section::markdown("outer", "Outer").child(inner),
    ])
    .unwrap_err();
    let reason = "section first has a tool of this name already; names are unique in a prompt";
    assert_eq!(error_found, error("outer.inner", Some("same"), None, reason));
    assert_eq!(error_found.to_string(), format!("section outer.inner, tool same: {reason}"));
    let twice = refused(Section::tools("one", "One").tool(tool("same")).tool(tool("same")));
    assert_eq!((twice.section.as_str(), twice.tool.as_deref()), ("one", Some("same")));
}

// case 6
#[test]
fn tools_may_share_their_types() {
    let template = build([Section::tools("tools", "Tools")
        .tool(Tool::new("lookup", "Looks up.", lookup))
        .tool(Tool::new("lookup_again", "Looks up again.", lookup))])
    .unwrap();
    assert_eq!(names(&template.prompt(), &Session::new()), ["lookup", "lookup_again"]);
}

// case 11
#[test]
fn built_in_names_are_taken() {
    for name in ["open_sections", "read_section"] {
        let reason = "the name belongs to a built-in tool; choose another";
        assert_eq!(
            refused(Section::tools("mine", "Mine").tool(tool(name))),
            error("mine", Some(name), None, reason)
        );
    }
}

#[test]
fn a_wrong_tool_is_reported_with_its_section() {
    assert_eq!(
        refused(Section::markdown("a", "A").child(Section::tools("b", "B").tool(tool("Read")))),
        error("a.b", Some("Read"), None, "tool name \"Read\" must match ^[a-z0-9_-]{1,64}$")
    );
    assert_eq!(
        refused(Section::tools("b", "B").tool(Tool::new("quiet", " ", nothing))),
        error("b", Some("quiet"), None, "its description must have 1 to 200 characters, not 0")
    );
}

// case 12
#[tokio::test]
async fn tools_of_a_disabled_section_are_neither_listed_nor_callable() {
    let template = build([
        Section::markdown("off", "Off")
            .enabled_when(|_| false)
            .body("Hidden.")
            .child(Section::tools("below", "Below").tool(tool("deep"))),
        Section::tools("on", "On").tool(tool("shallow")),
    ])
    .unwrap();
    let session = Session::new();
    let rendered = template.prompt().render(&session).unwrap();
    assert_eq!(rendered.text(), "## 1. On");
    assert_eq!(names(&template.prompt(), &session), ["shallow"]);
    assert!(rendered.find("deep").is_none());
    assert_eq!(rendered.hidden("deep"), Some(&Hidden::Disabled { section: "off".into() }));
    assert_eq!(rendered.hidden("shallow"), None);
    assert_eq!(rendered.hidden("never_heard_of"), None);

    let executor = Executor::open(&template.prompt(), &session).await.unwrap();
    let refused = executor.call(ToolCall::new("1", "deep", "{}")).await;
    assert!(!refused.is_success() && refused.escalation.is_none());
    assert!(refused.text().contains("section off is disabled"), "{}", refused.text());
    assert!(executor.call(ToolCall::new("2", "shallow", "{}")).await.is_success());
}

// case 13
#[test]
fn tools_come_in_order_of_declaration_every_time() {
    let template = build([
        Section::tools("one", "One")
            .child(Section::tools("inner", "Inner").tool(tool("c")).tool(tool("d")))
            .tool(tool("a"))
            .tool(tool("b")),
        Section::tools("two", "Two").with_tools([tool("z"), tool("e")]),
    ])
    .unwrap();
    let prompt = template.prompt();
    let session = Session::new();
    for _ in 0..3 {
        assert_eq!(names(&prompt, &session), ["a", "b", "c", "d", "z", "e"]);
        let rendered = prompt.render(&session).unwrap();
        let listed: Vec<&str> = rendered.tools().iter().map(|placed| &**placed.name()).collect();
        assert_eq!(listed, ["a", "b", "c", "d", "z", "e"]);
    }
    let places: Vec<&str> = prompt.placed_tools().map(|placed| &*placed.section).collect();
    assert_eq!(places, ["one", "one", "one.inner", "one.inner", "two", "two"]);
}

// case 212
#[test]
fn headings_are_numbered_without_gaps() {
    let leaf = |key: &str| Section::markdown(key, key.to_uppercase());
    let template = build([
        leaf("a").child(leaf("x").enabled_when(|_| false)).child(leaf("y").child(leaf("deep"))),
        leaf("gone").enabled_when(|_| false).child(leaf("too")),
        leaf("b").body("Text."),
    ])
    .unwrap();
    assert_eq!(text(&template.prompt()), "## 1. A\n\n### 1.1. Y\n\n#### 1.1.1. DEEP\n\n## 2. B\n\nText.");
}

#[test]
fn headings_never_go_below_the_sixth_level() {
    let deepest = Section::markdown("f", "F");
    let nested = ["e", "d", "c", "b", "a"]
        .iter()
        .fold(deepest, |below, key| Section::markdown(*key, key.to_uppercase()).child(below));
    let rendered = text(&build([nested]).unwrap().prompt());
    assert!(rendered.ends_with("###### 1.1.1.1.1. E\n\n###### 1.1.1.1.1.1. F"), "{rendered}");
}

// case 213
#[test]
fn every_placeholder_is_a_field() {
    let params = Some(type_name::<Guidance>());
    assert_eq!(
        refused(
            Section::markdown("guide", "Guide")
                .params::<Guidance>()
                .body("Use ${primary_tool}, not $primary.")
        ),
        error(
            "guide",
            None,
            params,
            "placeholder ${primary} in its body is no field of the params; its fields are primary_tool, retries"
        )
    );
    assert_eq!(
        refused(Section::markdown("guide", "Guide").params::<Guidance>().summary("About ${it}.")),
        error(
            "guide",
            None,
            params,
            "placeholder ${it} in its summary is no field of the params; its fields are primary_tool, retries"
        )
    );
    assert_eq!(
        refused(Section::markdown("guide", "Guide").body("Use $primary_tool.")),
        error(
            "guide",
            None,
            None,
            "placeholder ${primary_tool} in its body, but it has no params; say .params::<P>(), or write $$ for a \
             dollar sign"
        )
    );
}

// case 214
#[test]
fn dollars_are_doubled() {
    let template = build([Section::markdown("price", "Price").body("It costs $$5, or $$$$.")]).unwrap();
    assert_eq!(text(&template.prompt()), "## 1. Price\n\nIt costs $5, or $$.");
    assert_eq!(
        refused(Section::markdown("price", "Price").body("It costs $5.")),
        error("price", None, None, "stray $ in its body, at \"$5.\"; write $$ for a dollar sign")
    );
}

// case 215
#[test]
fn missing_params_are_named() {
    let template = build([Section::markdown("top", "Top")
        .child(Section::markdown("guide", "Guide").params::<Guidance>().body("Use $primary_tool."))])
    .unwrap();
    let missing = template.prompt().render(&Session::new()).unwrap_err();
    assert_eq!(
        missing,
        PromptRenderError {
            section: "top.guide".into(),
            params: Some(type_name::<Guidance>()),
            reason: "no params of this type are bound; pass them to .bind(..)".into(),
        }
    );
    assert_eq!(template.prompt().tools(&Session::new()).unwrap_err(), missing);
}

// case 216
#[test]
fn params_are_bound_once_and_replaced_later() {
    let template =
        build([Section::markdown("guide", "Guide").params::<Guidance>().body("$primary_tool, $retries")])
            .unwrap();
    let twice = template.binding().params(guidance("a")).params(guidance("b")).build().unwrap_err();
    let reason = "two params of one type are bound at once; bind one";
    assert_eq!(twice, error("", None, Some(type_name::<Guidance>()), reason));
    let first = template.bind(guidance("a")).unwrap();
    let second = first.bind(guidance("b")).unwrap();
    assert_eq!(text(&first), "## 1. Guide\n\na, 3");
    assert_eq!(text(&second), "## 1. Guide\n\nb, 3");
}

#[test]
fn params_that_no_section_takes_are_refused() {
    #[derive(Serialize, JsonSchema)]
    struct Other {}
    let template = build([Section::markdown("a", "A")]).unwrap();
    let reason = "no section takes params of this type";
    assert_eq!(template.bind(Other {}).unwrap_err(), error("", None, Some(type_name::<Other>()), reason));
}

// case 217
#[test]
fn siblings_have_different_keys() {
    let twice =
        Section::markdown("top", "Top").child(Section::markdown("a", "A")).child(Section::markdown("a", "B"));
    assert_eq!(refused(twice).section, "top.a");
    let cousins = build([
        Section::markdown("x", "X").child(Section::markdown("a", "A")),
        Section::markdown("y", "Y").child(Section::markdown("a", "A")),
    ]);
    assert!(cousins.is_ok());
    // A dot in a key must not make one path of two sections.
    let disguised = build([
        Section::markdown("x", "X").child(Section::markdown("a", "A")),
        Section::markdown("x.a", "A"),
    ]);
    assert_eq!(disguised.unwrap_err().section, "x.a");
}

#[test]
fn keys_titles_and_names_are_checked() {
    for key in ["a", "0", "a.b_c-d", &"k".repeat(64)] {
        assert!(build([Section::markdown(key, "T")]).is_ok(), "{key}");
    }
    for key in ["", "A", ".a", "-a", "a b", "é", &"k".repeat(65)] {
        let reason = refused(Section::markdown(key, "T")).reason;
        assert!(reason.contains("must match ^[a-z0-9][a-z0-9._-]{0,63}$"), "{reason}");
    }
    for title in ["", "  ", "two\nlines"] {
        assert_eq!(
            refused(Section::markdown("a", title)).reason,
            format!("its title {title:?} must be one line of text")
        );
    }
    for (ns, key) in [("", "a"), ("a/", "a"), ("a/../b", "a"), ("A", "a"), ("a", ""), ("a", "b/c")] {
        assert!(PromptTemplate::builder(ns, key).build().is_err(), "{ns:?} {key:?}");
    }
    let prompt =
        PromptTemplate::builder("a/b", "c").name("For people").section(Section::markdown("s", "S")).build();
    let prompt = prompt.unwrap().prompt();
    assert_eq!((&**prompt.name(), prompt.ns(), prompt.key()), ("a/b/c", "a/b", "c"));
    assert_eq!(prompt.display_name(), Some("For people"));
}

#[test]
fn a_summary_section_has_a_summary() {
    assert_eq!(
        refused(Section::markdown("a", "A").visibility(Visibility::Summary)).reason,
        "it is shown as a summary and has none; say .summary(\"…\")"
    );
}

#[test]
fn one_section_has_one_params_type() {
    #[derive(Serialize, JsonSchema)]
    struct Other {}
    let two =
        Section::markdown("a", "A").params::<Guidance>().enabled_if(|_: &Other, _: &SessionView<'_>| true);
    let reason =
        format!("it names two params types, {} and {}", type_name::<Guidance>(), type_name::<Other>());
    assert_eq!(refused(two).reason, reason);
}

#[test]
fn serde_names_are_the_placeholders() {
    #[derive(Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    struct Names {
        first_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        nick_name: Option<String>,
        #[serde(flatten)]
        more: More,
    }
    #[derive(Serialize, JsonSchema)]
    struct More {
        tags: Vec<String>,
    }
    let template = build([Section::markdown("names", "Names")
        .params::<Names>()
        .body("[${first-name}] [${nick-name}] [$tags]")])
    .unwrap();
    let more = More { tags: vec!["é".into()] };
    let prompt = template.bind(Names { first_name: "$tags".into(), nick_name: None, more }).unwrap();
    assert_eq!(text(&prompt), "## 1. Names\n\n[$tags] [] [[\"é\"]]");
}

#[test]
fn defaults_count_until_something_is_bound() {
    let template = build([Section::markdown("guide", "Guide")
        .default_params(guidance("fallback"))
        .body("Use ${primary_tool}.")])
    .unwrap();
    assert_eq!(text(&template.prompt()), "## 1. Guide\n\nUse fallback.");
    assert_eq!(text(&template.bind(guidance("bound")).unwrap()), "## 1. Guide\n\nUse bound.");
}

#[derive(Serialize, Deserialize)]
struct Started;

impl SliceType for Started {
    const NAME: &'static str = "tests.started";
}

#[test]
fn predicates_ask_params_and_session() {
    let template =
        build([Section::markdown("a", "A").enabled_if(|params: &Guidance, session: &SessionView<'_>| {
            params.retries > 0 && !session.slice::<Started>().is_empty()
        })])
        .unwrap();
    let prompt = template.bind(guidance("a")).unwrap();
    let session = Session::new();
    assert_eq!(prompt.render(&session).unwrap().text(), "");
    assert!(session.dispatch(Started).is_ok());
    assert_eq!(prompt.render(&session).unwrap().text(), "## 1. A");
    assert_eq!(prompt.render(&session.read_only()).unwrap().text(), "## 1. A");
    let never = prompt.bind(Guidance { retries: 0, ..guidance("a") }).unwrap();
    assert_eq!(never.render(&session).unwrap().text(), "");
}

#[test]
fn a_predicate_that_panics_is_an_error() {
    let template = build([Section::markdown("a", "A").enabled_when(|_| panic!("no idea"))]).unwrap();
    assert_eq!(
        template.prompt().render(&Session::new()).unwrap_err(),
        PromptRenderError {
            section: "a".into(),
            params: None,
            reason: "its enabled predicate panicked: no idea".into(),
        }
    );
}

#[test]
fn sections_that_are_bound_are_checked_like_the_others() {
    let template = build([Section::tools("a", "A").tool(tool("one"))]).unwrap();
    let bind = |section| template.binding().section(section).build();
    let clash = bind(Section::tools("b", "B").tool(tool("one"))).unwrap_err();
    assert_eq!((clash.section.as_str(), clash.tool.as_deref()), ("b", Some("one")));
    assert_eq!(bind(Section::markdown("a", "A")).unwrap_err().section, "a");
    let more = bind(Section::tools("b", "B").tool(tool("two"))).unwrap();
    let session = Session::new();
    assert_eq!(names(&more, &session), ["one", "two"]);
    assert_eq!(names(&template.prompt(), &session), ["one"]);
    assert_eq!(text(&more), "## 1. A\n\n## 2. B");
    // A later bind sees what an earlier one added.
    assert!(more.binding().section(Section::tools("c", "C").tool(tool("two"))).build().is_err());
}

struct Which(&'static str);

fn which(name: &'static str) -> ResourceRegistry {
    ResourceRegistry::of((Binding::instance(Arc::new(Which(name))),)).unwrap()
}

// case 136
#[tokio::test]
async fn resources_are_layered() {
    let plain = PromptTemplate::builder("tests", "layers").resources(which("template"));
    let prompt = plain.build().unwrap().prompt();
    assert_eq!(prompt.resources().get::<Which>().unwrap().0, "template");

    let template = PromptTemplate::builder("tests", "layers")
        .resources(which("template"))
        .section(
            Section::markdown("a", "A")
                .resources(which("a"))
                .child(Section::markdown("b", "B").resources(which("a.b"))),
        )
        .build()
        .unwrap();
    let prompt = template.prompt();
    let session = Session::new();
    let got = async |prompt: &Prompt, layers: &[&'static str]| {
        let mut builder = Executor::builder(prompt, &session);
        for layer in layers {
            builder = match *layer {
                "adapter" => builder.adapter_resources(which("adapter")),
                "loop" => builder.loop_resources(which("loop")),
                _ => builder.resources(which("request")),
            };
        }
        builder.open().await.unwrap().resources().get::<Which>().await.unwrap().0
    };
    assert_eq!(prompt.resources().get::<Which>().unwrap().0, "a.b");
    assert_eq!(got(&prompt, &[]).await, "a.b");
    assert_eq!(got(&prompt, &["adapter"]).await, "adapter");
    assert_eq!(got(&prompt, &["adapter", "loop"]).await, "loop");
    let bound = prompt.binding().resources(which("first")).resources(which("bind")).build().unwrap();
    assert_eq!(bound.resources().get::<Which>().unwrap().0, "bind");
    assert_eq!(got(&bound, &["adapter", "loop"]).await, "bind");
    assert_eq!(got(&bound, &["adapter", "loop", "request"]).await, "request");

    let later = bound
        .binding()
        .section(Section::markdown("c", "C").resource(Binding::instance(Arc::new(Which("c")))));
    assert_eq!(later.build().unwrap().resources().get::<Which>().unwrap().0, "bind");

    let twice = Section::markdown("a", "A").resources(which("one")).resources(which("two"));
    assert_eq!(refused(twice).section, "a");
}

struct Rule(&'static str);

impl ToolPolicy for Rule {
    fn kind(&self) -> &'static str {
        self.0
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(std::future::ready(Ok(Decision::Allow)))
    }
}

#[test]
fn policies_are_placed_outermost_first_and_keep_their_keys() {
    let template = PromptTemplate::builder("tests", "policies")
        .policy(Rule("quota"))
        .section(
            Section::tools("outer", "Outer")
                .policy(Rule("quota"))
                .policy(Rule("paths"))
                .policy(Rule("quota"))
                .tool(tool("one"))
                .child(Section::tools("inner", "Inner").policy(Rule("rate")).tool(tool("two"))),
        )
        .section(Section::tools("other", "Other").tool(tool("three")))
        .build()
        .unwrap();
    let keys = |name: &str| -> Vec<String> {
        let prompt = template.prompt();
        let placed = prompt.placed_tools().find(|placed| &**placed.name() == name).unwrap().clone();
        placed.policies.iter().map(|policy| policy.key.to_string()).collect()
    };
    assert_eq!(keys("one"), ["outer/quota/0", "outer/paths/0", "outer/quota/1", "/quota/0"]);
    assert_eq!(
        keys("two"),
        ["outer/quota/0", "outer/paths/0", "outer/quota/1", "outer.inner/rate/0", "/quota/0"]
    );
    assert_eq!(keys("three"), ["/quota/0"]);
}

#[test]
fn prepare_makes_the_session_ready_and_may_be_repeated() {
    #[derive(Serialize, Deserialize)]
    struct Count(u32);
    impl SliceType for Count {
        const NAME: &'static str = "tests.count";
    }
    impl wink::session::DeclarativeSlice for Count {
        fn initial() -> Option<Self> {
            Some(Self(0))
        }
        fn reducers(on: &mut wink::session::Reducers<Self>) {
            on.on::<Started>(|count, _| Ok(Count(count.0 + 1)));
        }
    }
    let template = build([Section::markdown("outer", "Outer")
        .child(Section::markdown("a", "A").install(|session| session.install::<Count>()))])
    .unwrap();
    let session = Session::new();
    template.prompt().prepare(&session).unwrap();
    template.prompt().prepare(&session).unwrap();
    assert!(session.dispatch(Started).is_ok());
    assert_eq!(session.slice::<Count>().latest().unwrap().0, 1);
}

#[test]
fn the_unrendered_tree_can_be_looked_at() {
    let template = build([Section::markdown("a", "A")
        .params::<Guidance>()
        .body("\n    Use $primary_tool.\n      Twice.\n")
        .summary("In short.")
        .without_overrides()
        .child(
            Section::tools("b", "B").visibility(Visibility::Summary).summary("Tools.").tool(tool("one")),
        )])
    .unwrap();
    let prompt = template.prompt();
    let [a]: [&PlacedSection; 1] = prompt.sections().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((&**a.path(), a.key(), a.title(), a.kind()), ("a", "a", "A", SectionKind::Markdown));
    assert_eq!((a.body(), a.summary()), ("Use $primary_tool.\n  Twice.", Some("In short.")));
    assert_eq!(a.params(), Some(type_name::<Guidance>()));
    assert_eq!((a.visibility(), a.accepts_overrides()), (Visibility::Full, false));
    let [b]: [&PlacedSection; 1] = a.children().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((&**b.path(), b.kind(), b.visibility()), ("a.b", SectionKind::Tools, Visibility::Summary));
    assert_eq!(b.tools()[0].name().as_ref(), "one");
}

#[test]
fn prompts_can_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Prompt>();
    crosses::<PromptTemplate>();
    crosses::<wink::prompt::RenderedPrompt>();
    crosses::<Section>();
}

const WHOLE: &str = r#"## 1. Guidance

Use tools for fresh facts. Prefer lookup_entity, try 3 times.

    Indentation below the first level stays.

Examples of `lookup_entity`:

- A known entity
  call: `{"entity_id":"abc-123"}`
  result: `{"entity_id":"abc-123","url":"https://example.com/1"}`
- An entity of `many` names
  call: `{"entity_id":"zürich"}`
  result: `{"entity_id":"zürich","url":"https://example.com/2"}`

Examples of `show`:

- Several lines
  call: `{}`
  result:
  ````
  one
  ```
  two
  ````

### 1.1. Available Tools

Invoke lookup_entity first.

## 2. Manual

How the service works.

[Closed. To read it, call `read_section` with section_key "manual".]

## 3. Operations

Restart and deploy.

[Closed. To read it and use its tools, call `open_sections` with section_keys ["ops"].]

## 4. Task

Do it for $5."#;

async fn show(_: (), _: &mut ToolContext) -> ToolResult<Vec<String>> {
    ToolResult::value(vec!["one".into()])
}

// cases 212, 214, 218
#[test]
fn a_whole_prompt() {
    let entity =
        |id: &str, url: &str| Entity { entity_id: id.into(), url: format!("https://example.com/{url}") };
    let guide = Section::markdown("guidance", "Guidance")
        .params::<Guidance>()
        .body(
            "
            Use tools for fresh facts. Prefer ${primary_tool}, try $retries times.

                Indentation below the first level stays.
            ",
        )
        .tool(
            Tool::new("lookup_entity", "Fetch an entity by id.", lookup)
                .example("A known entity", Lookup { entity_id: "abc-123".into() }, entity("abc-123", "1"))
                .example(
                    "An entity of `many` names",
                    Lookup { entity_id: "zürich".into() },
                    entity("zürich", "2"),
                ),
        )
        .tool(tool("silent"))
        .tool(Tool::new("show", "Shows lines.", show).example(
            "Several lines",
            (),
            vec!["one".into(), "```".into(), "two".into()],
        ))
        .child(
            Section::tools("tools", "Available Tools")
                .params::<Guidance>()
                .body("Invoke ${primary_tool} first.")
                .tool(tool("hidden_example").example("Never shown", (), ())),
        );
    let quiet = Section::markdown("quiet", "Quiet").enabled_when(|_| false).tool(tool("disabled"));
    let manual = Section::markdown("manual", "Manual")
        .body("A long text.")
        .summary("How the service works.")
        .visibility(Visibility::Summary)
        .child(Section::markdown("more", "More").body("Even more."));
    let operations = Section::markdown("ops", "Operations")
        .body("A long text.")
        .summary("Restart and deploy.")
        .visibility(Visibility::Summary)
        .child(Section::tools("tools", "Tools").tool(tool("restart").example("Now", (), ())));
    let task = Section::markdown("task", "Task").body("Do it for $$5.");
    let prompt =
        build([guide, quiet, manual, operations, task]).unwrap().bind(guidance("lookup_entity")).unwrap();

    let rendered = prompt.render(&Session::new()).unwrap();
    assert_eq!(rendered.text(), WHOLE);
    let listed: Vec<&str> = rendered.tools().iter().map(|placed| &**placed.name()).collect();
    assert_eq!(
        listed,
        ["lookup_entity", "silent", "show", "hidden_example", "open_sections", "read_section"]
    );
    assert_eq!(rendered.closed_sections(), ["manual".into(), "ops".into()] as [Arc<str>; 2]);
    assert_eq!(rendered.hidden("restart"), Some(&Hidden::Closed { section: "ops".into() }));
    assert_eq!(rendered.hidden("disabled"), Some(&Hidden::Disabled { section: "quiet".into() }));
}

#[test]
fn a_section_can_leave_its_examples_out() {
    let section = Section::markdown("a", "A").body("Text.").tool(tool("one").example("Once", (), ()));
    assert_eq!(
        text(&build([section]).unwrap().prompt()),
        "## 1. A\n\nText.\n\nExamples of `one`:\n\n- Once\n  call: `{}`\n  result: (empty)"
    );
    let section = Section::markdown("a", "A").body("Text.").tool(tool("one").example("Once", (), ()));
    assert_eq!(text(&build([section.without_examples()]).unwrap().prompt()), "## 1. A\n\nText.");
}

#[test]
fn a_section_of_tools_shows_no_examples() {
    let section = Section::tools("a", "A").body("Text.").tool(tool("one").example("Once", (), ()));
    assert_eq!(text(&build([section]).unwrap().prompt()), "## 1. A\n\nText.");
}
