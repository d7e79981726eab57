# The smallest program with the Python original: one tool, one session, one transactional call of it.
from dataclasses import dataclass, field

from weakincentives.adapters._shared._bridge import create_bridged_tools
from weakincentives.prompt import MarkdownSection, Prompt, PromptTemplate, Tool, ToolResult
from weakincentives.runtime import InProcessDispatcher, Session


@dataclass(slots=True, frozen=True)
class ReadPlan:
    verbose: bool = False


@dataclass(slots=True, frozen=True)
class Plan:
    objective: str = "Make the tests pass"
    steps: tuple[str, ...] = field(default=("Reproduce the failure", "Fix it", "Add a test"))

    def render(self) -> str:
        return "\n".join((self.objective, *self.steps))


def read(params, *, context):
    return ToolResult.ok(Plan(), message="Here it is.")


tool = Tool[ReadPlan, Plan](name="planning_read_plan", description="Show the plan.", handler=read)
section = MarkdownSection(title="Work", key="work", template="Keep a plan.", tools=[tool])
template = PromptTemplate(ns="bench", key="programs", name="bench", sections=[section])
prompt = Prompt(template)
session = Session(dispatcher=InProcessDispatcher())
rendered = prompt.render(session=session)
with prompt.resources:
    (called,) = create_bridged_tools(
        rendered.tools,
        session=session,
        adapter=None,
        prompt=prompt,
        rendered_prompt=rendered,
        deadline=None,
        budget_tracker=None,
    )
    answer = called({})
assert not answer["isError"], answer
