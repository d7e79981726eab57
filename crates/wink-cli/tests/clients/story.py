"""What every client does through `wink serve`, and how one sees that it happened: a call that a policy denies, one that succeeds,
one that writes files, fails and is undone, and the same with other arguments.
"""

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OWN_FILES = Path(__file__).parent / "workspace"
# For a client that hangs: nothing here takes longer than some seconds.
PATIENCE = 120


@dataclass(frozen=True)
class Step:
    tool: str
    arguments: dict
    answer: str
    error: str | None = None
    decision: str = "allow"
    rolled_back: bool = False


STEPS = [
    Step(
        "deploy",
        {"environment": "production"},
        "Cannot call 'deploy' - missing required tools: run_tests\nCall these tools first, then retry deploy.",
        error="denied",
        decision="deny",
    ),
    Step("run_tests", {}, "3 tests passed"),
    Step(
        "deploy",
        {"environment": "production"},
        "deploy exited with 3. What it changed in the workspace is undone.\n--- stderr\nproduction does not answer",
        error="failed",
        rolled_back=True,
    ),
    Step("deploy", {"environment": "staging"}, "deployed staging"),
]
# What is in the workspace after each of them, beside what was there at first.
FILES = [
    {},
    {"report.txt": "all passed\n"},
    {"report.txt": "all passed\n"},
    {"report.txt": "deploying\n", "deployed.txt": "staging\n"},
]


@dataclass(frozen=True)
class Place:
    """A home and a workspace that nobody has used."""

    wink: str
    home: Path
    workspace: Path

    @property
    def environment(self):
        """The whole environment: what the caller has is not for the client."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.home / "tmp")}

    @property
    def server(self):
        return [self.wink, "serve", "--workspace", str(self.workspace)]

    def run(self, command, **more_environment):
        return subprocess.run(
            command,
            cwd=self.home,
            env=self.environment | more_environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def files(self):
        """The files that were not there at first."""
        there = (path for path in self.workspace.rglob("*") if path.is_file() and path.name not in os.listdir(OWN_FILES))
        names = ((path.relative_to(self.workspace), path) for path in there)
        return {str(name): path.read_text() for name, path in names if name.parts[0] != ".wink"}

    def log(self):
        ran = self.run([self.wink, "log", "--json", "--workspace", str(self.workspace)])
        assert ran.returncode == 0, ran
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def check(self, call_ids=None):
        """That the log has the story and nothing else, and that the files are as after it."""
        log = self.log()
        keys = ("tool", "arguments", "rendered", "success", "rolled_back", "replayed")
        told = [
            {key: row[key] for key in keys}
            | {"error": row["error"] and row["error"]["kind"], "decision": row["decision"]["outcome"]}
            for row in log
        ]
        expected = [
            {
                "tool": step.tool,
                "arguments": step.arguments,
                "rendered": step.answer,
                "success": step.error is None,
                "rolled_back": step.rolled_back,
                "replayed": False,
                "error": step.error,
                "decision": step.decision,
            }
            for step in STEPS
        ]
        same(told, expected, "the log")
        if call_ids is not None:
            same([row["call_id"] for row in log], call_ids, "the ids in the log")
        same(self.files(), FILES[-1], "the files in the workspace")


@contextmanager
def place(wink):
    with tempfile.TemporaryDirectory() as scratch:
        home, workspace = Path(scratch, "home"), Path(scratch, "workspace")
        (home / "tmp").mkdir(parents=True)
        shutil.copytree(OWN_FILES, workspace)
        yield Place(os.path.abspath(wink), home, workspace)


def same(found, expected, what):
    assert found == expected, f"{what}:\n{json.dumps(found, indent=2)}\nand not\n{json.dumps(expected, indent=2)}"
