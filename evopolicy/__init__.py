"""EvoPolicy: how well does a coding agent turn limited Environment Feedback into a better
executable Policy?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evopolicy.api import evaluate as evaluate
    from evopolicy.api import load as load
    from evopolicy.api import load_run as load_run
    from evopolicy.api import run as run
    from evopolicy.api import sweep as sweep

__version__ = "0.1.0"
__all__ = ["__version__", "evaluate", "load", "load_run", "run", "sweep"]


def __getattr__(name: str) -> Any:
    # Late, so that `import evopolicy` (and every console script) costs nothing. Without
    # `lazy_loader`: whoever imports the kernel imports this too, and the kernel knows no such
    # package.
    if name in __all__:
        from evopolicy import api

        return getattr(api, name)
    raise AttributeError(f"module 'evopolicy' has no attribute '{name}'")
