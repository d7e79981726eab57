# The loop of another library, turn by turn: the same script, the same tool, a model that does nothing but answer and look at
# the clock.
#
#   peers.py pydantic-ai|langgraph SCRIPT [DIRECTORY]
#
# Each line on standard input is a run; for each there is one line on standard output: {"ns": [...], "answer": ..., "text": ...},
# which are the times from one request to the next, the last answer of the tool and the last word of the model. With a directory,
# each run keeps what was said in a database of its own there, as far as the library does that.
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns

TASK = "Write the file."


class Script:
    def __init__(self, path):
        self.lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
        self.asked = []

    def next(self):
        line = self.lines[len(self.asked)]
        self.asked.append(perf_counter_ns())
        return line

    def run(self, run):
        self.asked = []
        answer, text = run()
        return {"ns": [late - early for early, late in zip(self.asked, self.asked[1:])], "answer": answer, "text": text}


def answer(path, content, start_line, overwrite, tags):
    overwrite = "true" if overwrite else "false"
    return f"Wrote {len(content)} bytes to {path} at line {start_line} (overwrite={overwrite}, {len(tags)} tags)."


def pydantic_ai(script, place):
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models import Model
    from pydantic_ai.usage import RequestUsage, UsageLimits

    if place:
        sys.exit("Pydantic AI keeps nothing by itself")

    class Scripted(Model):
        model_name = "scripted"
        system = "scripted"

        async def request(self, messages, model_settings, model_request_parameters):
            line = script.next()
            parts = [TextPart(line["text"])] if line["text"] else []
            for call in line["tool_calls"]:
                parts.append(ToolCallPart(call["name"], call["arguments"], call["id"]))
            return ModelResponse(parts, usage=RequestUsage(input_tokens=1, output_tokens=1), model_name="scripted")

    agent = Agent(Scripted())

    # Not a plain function: that would be run by another thread.
    @agent.tool_plain
    async def write_file(path: str, content: str, start_line: int, overwrite: bool, tags: list[str]) -> str:
        """Write a file."""
        return answer(path, content, start_line, overwrite, tags)

    def run():
        result = agent.run_sync(TASK, usage_limits=UsageLimits(request_limit=None))
        answers = result.all_messages()[-2].parts
        return answers[0].content, result.output

    return run


def langgraph(script, place):
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self):
            return "scripted"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            line = script.next()
            calls = [{"name": call["name"], "args": call["arguments"], "id": call["id"]} for call in line["tool_calls"]]
            message = AIMessage(content=line["text"], tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

    @tool
    def write_file(path: str, content: str, start_line: int, overwrite: bool, tags: list[str]) -> str:
        """Write a file."""
        return answer(path, content, start_line, overwrite, tags)

    model = Scripted()
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([write_file]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    most = {"recursion_limit": 2 * len(script.lines) + 1}
    task = {"messages": [("user", TASK)]}

    def ended(state):
        messages = state["messages"]
        return messages[-2].content, messages[-1].content

    if not place:
        in_memory = graph.compile()
        return lambda: ended(in_memory.invoke(task, most))

    from langgraph.checkpoint.sqlite import SqliteSaver

    def run():
        with TemporaryDirectory(dir=place) as own, SqliteSaver.from_conn_string(f"{own}/run.db") as saver:
            kept = graph.compile(checkpointer=saver)
            # What was said is there before anything follows from it.
            return ended(kept.invoke(task, {**most, "configurable": {"thread_id": "bench"}}, durability="sync"))

    return run


def main():
    library, path, *place = sys.argv[1:]
    script = Script(path)
    run = {"pydantic-ai": pydantic_ai, "langgraph": langgraph}[library](script, *place or [None])
    for _ in sys.stdin:
        print(json.dumps(script.run(run)), flush=True)


main()
