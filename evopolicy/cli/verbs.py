"""The verbs of `evopolicy`: where each is, what it does, and its options, which are those it
takes."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import NamedTuple

from evopolicy.cli.docstrings import described

_OUTPUT = "folder the Runs were written to (outputs)"
_STORE = described("config.py", "TrackingConfig", "tracking.")
_TABLE = described("analysis/tables/config.py", "TableConfig")
_FIGURE = described("analysis/figures/config.py", "FigureConfig")
_READ = {
    "sweep": "sweeps by name, comma separated",
    "source": "or folders (a Run's, a sweep's, an output folder) or mlflow:EXPERIMENT[/SWEEP], "
    "comma separated",
    "output": f"{_OUTPUT}, and that Runs from MLflow are brought to",
    "tracking.uri": "the store that mlflow:EXPERIMENT is read from; '' for the output folder's "
    "mlflow.db",
}
_ALLOW = _TABLE["allow"]


class Verb(NamedTuple):
    """A verb of the command line: a function of its name, in the module of its name in
    `evopolicy.cli.commands`."""

    usage: str
    what: str
    options: Mapping[str, str]
    more: str = ""
    """A last line of its help."""


VERBS: Mapping[str, Verb] = {
    "table": Verb(
        "[name=TABLE] sweep=NAME | source=DIR",
        "the rank table of any Runs, or a table of the paper",
        {
            "name": "a table of conf/table/ (paper/core16, study/scaling, ...) or a YAML file; "
            "without: the rank table",
            **_READ,
            "to": "a file to write it to; .csv, .tex, .html, .md and .txt choose the format",
            **_TABLE,
        },
        "`evopolicy table name=paper/core16` alone prints what is published. All of it: "
        "docs/tables.md",
    ),
    "report": Verb(
        "source=RUN|SWEEP [to=FILE]",
        "one HTML file of a Run or a sweep",
        {
            **_READ,
            "to": "an .html file or a folder; report.html beside the records by default",
            "allow": _ALLOW,
            "log": "true: the page becomes an artifact of the MLflow run too",
            **{key: text for key, text in _STORE.items() if key not in _READ},
        },
        "What is in it: docs/report.md",
    ),
    "figure": Verb(
        "name=NAME sweep=NAME to=FILE",
        "one figure of a sweep or of any Runs; alone, their names",
        {
            "name": "a kind, a figure of conf/figure/ or a YAML file; `evopolicy figure` lists "
            "them",
            **_READ,
            "to": "a .svg, .png or .pdf file; NAME.svg by default",
            **{key: text for key, text in _FIGURE.items() if key != "kind"},
        },
        "Each with its picture: docs/figures.md",
    ),
    "status": Verb(
        "[sweep=NAME]",
        "what is running, from another terminal",
        {
            "sweep": "one sweep; without: every Run that is going on, and the sweeps there are",
            "output": _OUTPUT,
        },
    ),
    "resume": Verb(
        "sweep=NAME | source=RUN",
        "go on with an interrupted sweep or Run",
        {
            "sweep": "the sweep's name",
            "source": "or a Run's folder",
            "output": _OUTPUT,
            "tracking.uri": "MLflow's store, where its address has a password: no record holds one",
            "trust": "true: go on with a record that was not made by you on this machine, and do "
            "what it says",
            "execution.isolation": "the level its record asks for, where that is less than this "
            "machine has",
            "execution.allow_unisolated": "true: likewise, where that is none",
            "execution.agent_network": "open: likewise, of its agent's network",
            **described("sweeps/config.py", "LauncherConfig", "launcher."),
        },
    ),
    "regrade": Verb(
        "sweep=NAME pool.assessment=64",
        "evaluate archived Programs again, with no agent",
        {
            **_READ,
            "name": "the regrade's folder, outputs/regrades/NAME; from its settings by default",
            "splits": "validation,assessment (default), or one of them",
            "trust": "true: believe what a record measured that was not made here, and load what "
            "its Benchmark names",
        },
        "And what is to be set anew: pool.assessment=64, selection=validation_lcb,last, "
        "execution.workers=2. All of it: docs/regrade.md",
    ),
    "verify": Verb(
        "sweep=NAME | source=DIR",
        "whether records agree with themselves: scores, Episodes, Programs",
        dict(_READ),
        "What is compared: docs/records.md",
    ),
    "evaluate": Verb(
        "program=DIR benchmark=NAME",
        "measure a Program without an agent",
        {
            "program": "folder that has policy.py in it",
            "split": "training (default), validation or assessment",
            "episodes": "how many; all of the split by default",
        },
        "And any key of a Run's config: benchmark=cartpole, pool=paper, "
        "execution.isolation=bubblewrap.",
    ),
    "ui": Verb(
        "[sweep=NAME]",
        "open MLflow on the result",
        {"sweep": "which; the latest by default", "output": _OUTPUT, **_STORE},
    ),
    "track": Verb(
        "source=FOLDER",
        "rebuild MLflow from records",
        {
            "sweep": "a sweep's name",
            "source": "or folders of sweeps or Runs",
            "output": _OUTPUT,
            **_STORE,
        },
    ),
    "doctor": Verb(
        "[--json]",
        "what works on this machine, what is missing, how to get it",
        {
            "output": "folder whose disk is looked at (outputs)",
            "tracking.uri": "MLflow's store, to be tried",
        },
        "--json prints it for programs.",
    ),
}


_COLUMNS = 80


def verb_line(name: str) -> str:
    """The verb and what it does, in one line."""
    return f"  {name:<{max(map(len, VERBS))}}  {VERBS[name].what}"


def verb_help(name: str) -> str:
    """How the verb is written, what it does, its options, and where there is more."""
    verb = VERBS[name]
    wide = max(map(len, verb.options))
    lines = [f"evopolicy {name} {verb.usage}", f"  {verb.what}", ""]
    for key, text in verb.options.items():
        lines += wrap(
            text, _COLUMNS, initial_indent=f"  {key:<{wide}}  ", subsequent_indent=" " * (wide + 4)
        )
    more = ["", *wrap(verb.more, _COLUMNS, break_on_hyphens=False)] if verb.more else []
    return "\n".join([*lines, *more]) + "\n"
