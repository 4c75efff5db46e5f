"""The command `evopolicy`: help at once, then a verb, or Hydra overrides that make a Run or a
sweep.

Exit codes: 0 all went well; 1 a cell failed; 2 what was asked cannot be done, standard error says
why; 130 interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from evopolicy.cli.verbs import VERBS, verb_help, verb_line

HELP = """\
evopolicy measures how well an agent turns limited Feedback into a better
executable Policy.

  evopolicy agent=cma_es benchmark=cartpole        one Run
  evopolicy -m experiment=quickstart               a sweep; again: it goes on
  evopolicy agent=random,cma_es suite=classic      lists, glob(*): a sweep too
  evopolicy --dry-run agent=cma_es suite=mujoco    what it would run and spend

Verbs, `evopolicy VERB key=value` (`evopolicy VERB --help` lists its options):
{verbs}

Config groups: agent benchmark suite protocol budget pool selection feedback
prompt session prices execution tracking launcher experiment. Every key can be
overridden (budget.episodes=32), --config-dir DIR adds your own YAML files, and
`evopolicy --cfg job agent=cma_es benchmark=cartpole` prints a composed config.

  -m, --multirun    run a sweep
  --dry-run         list the cells and what they would spend
  -h, --help        this text
  --version         the version
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Never raises, and prints no traceback of a
    user's mistake."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt as interrupt:
        print(f"\nevopolicy: {str(interrupt) or 'interrupted'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 2 if end.code else 0
    except Exception as error:
        return _tell(error)


def _run(arguments: list[str]) -> int:
    first = arguments[0] if arguments else "--help"
    if first == "--version":
        from importlib.metadata import version

        print(f"evopolicy {version('evopolicy')}")
        return 0
    if {"-h", "--help"} & {first, arguments[-1] if arguments else first}:
        print(help_text(first), end="")
        return 0
    from evopolicy.looks import sharing

    with sharing():
        return _command(first, arguments)


def _command(first: str, arguments: list[str]) -> int:
    if first in VERBS:
        code: int = getattr(import_module(f"evopolicy.cli.commands.{first}"), first)(arguments[1:])
        return code
    if "=" not in first and first[0] not in "-+~":
        from evopolicy.kernel.errors import ConfigError, did_you_mean

        raise ConfigError(
            f"there is no verb '{first}'.{did_you_mean(first, VERBS)} `evopolicy --help` lists "
            "them."
        )
    from evopolicy.cli.hydra.launch import run_overrides

    return run_overrides(arguments)


def help_text(word: str = "") -> str:
    """The help screen, or that of the verb `word`."""
    return verb_help(word) if word in VERBS else HELP.format(verbs="\n".join(map(verb_line, VERBS)))


def _tell(error: Exception) -> int:
    """Say what went wrong in one sentence; the exit code."""
    from evopolicy.kernel.errors import EvoPolicyError
    from evopolicy.kernel.secrecy.secrets import Masker
    from evopolicy.kernel.shown import clean

    text: str | None = str(error)
    code = getattr(error, "exit_code", 2)
    if not isinstance(error, EvoPolicyError):
        text = _foreign(error)
    if text is None:
        if os.environ.get("EVOPOLICY_DEBUG"):
            raise error
        text = (
            f"a fault inside evopolicy: {type(error).__name__}: {error} (EVOPOLICY_DEBUG=1 "
            "shows where)"
        )
        code = 1
    print(f"evopolicy: {clean(Masker.of(os.environ).text(text), 2_000)}", file=sys.stderr)
    return code


def _foreign(error: Exception) -> str | None:
    """A sentence for what Hydra or the system raised; None for a bug of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the system'}: {error.strerror}"
    if "hydra" in sys.modules:
        from evopolicy.cli.hydra.problems import sentence

        return sentence(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
