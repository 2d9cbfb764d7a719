"""Workloads of the user's own: `FILE.py:FACTORY` and `MODULE:FACTORY`, found, imported, called and checked.

Their code runs here as it is; whatever it does wrong becomes a ValueError of one sentence.
"""

import hashlib
import importlib
import importlib.util
import inspect
import math
import numbers
import os
import sys
import traceback
from importlib.machinery import SourceFileLoader
from typing import Any, Callable, Dict, NoReturn, Optional, Tuple

FORM = "write FILE.py:FACTORY or MODULE:FACTORY"
METHODS = (
    ("model", "model()"),
    ("loss", "loss(model, batch)"),
    ("optimizer", "optimizer(params, lr)"),
    ("train_data", "train_data()"),
    ("test_data", "test_data()"),
    ("example_input", "example_input(batch_size)"),
)


def is_users(spec: str) -> bool:
    """Whether `spec` means code of the user's, not a named workload."""
    return ":" in spec or spec.endswith(".py") or os.sep in spec


def file_of(spec: str) -> Optional[str]:
    """The absolute path of the file that `spec` names, there or not; None for modules and named workloads."""
    source = spec.rpartition(":")[0] or spec
    if not is_users(spec) or not (source.endswith(".py") or os.sep in source):
        return None
    return os.path.abspath(os.path.expanduser(source))


def explain(error: BaseException, path: Optional[str] = None) -> str:
    """One line for an exception: its type, its text and, where it passed through the file at `path`, the line."""
    text = " ".join(str(error).split())
    said = "{}: {}".format(type(error).__name__, text) if text else type(error).__name__
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return "{} (line {})".format(said, lines[-1]) if lines else said


def load_factory(spec: str) -> Callable[..., Any]:
    """What `spec` names, imported.

    Raises:
        ValueError: no such file, module or factory, or one that cannot be imported or called.
    """
    source, _, name = spec.rpartition(":")
    if not source or not name:
        what = "file or module" if spec.startswith(":") else "factory"
        raise ValueError("'{}' names no {}; {}".format(spec, what, FORM))
    path = file_of(spec)
    if path is None:
        module, what = _import_module(source), "module '{}'".format(source)
    else:
        module, what = _import_file(source, path), "'{}'".format(source)
    factory = getattr(module, name, None)
    if factory is None:
        names = sorted(
            key
            for key, value in vars(module).items()
            if callable(value) and not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
        )
        there = "; there are: " + ", ".join(names) if names else ""
        raise ValueError(
            "{} has no factory '{}'{}; write a function {}(...) that returns a workload".format(what, name, there, name)
        )
    if not callable(factory):
        raise ValueError(
            "'{}' of {} is of type {} and cannot be called; write a function {}(...) that returns a workload".format(
                name, what, type(factory).__name__, name
            )
        )
    found: Callable[..., Any] = factory
    return found


class _FreshLoader(SourceFileLoader):
    """Reads the source every time: compiled files know changes to the second only, and would litter the folder."""

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError("no compiled file")


def _import_file(source: str, path: str) -> Any:
    """The file at `path`, run anew as a module that hides no other."""
    if not os.path.exists(path):
        raise ValueError("there is no file '{}' (looked for {}); {}".format(source, path, FORM))
    if not os.path.isfile(path) or not path.endswith(".py"):
        raise ValueError("'{}' is no Python file; {}".format(source, FORM))
    name = "_workload_file_" + hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that no file beside it hides a module of others
    loader = _FreshLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pickle look there
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise ValueError("'{}' cannot be imported: {}".format(source, explain(error, path))) from error
    return module


def _import_module(source: str) -> Any:
    try:
        return importlib.import_module(source)
    except (Exception, SystemExit) as error:
        raise ValueError(
            "module '{}' cannot be imported: {}; a file is written FILE.py:FACTORY".format(source, explain(error))
        ) from error


def call_factory(spec: str, factory: Callable[..., Any], args: Dict[str, Any], data: Optional[str], users: bool) -> Any:
    """The workload that `factory` makes of `args`, and of `data` where it takes it.

    Raises:
        ValueError: arguments it does not take, or misses, or whatever it raises; a named workload's own ValueError
            passes as it is.
    """
    known, needed, takes_all = _parameters(factory)
    unknown = [] if takes_all else sorted(set(args) - set(known))
    if "data" in args:
        unknown = ["data"]  # it has an option of its own
    names = [name for name in known if name != "data"]
    if unknown:
        raise ValueError(
            "workload '{}' takes no argument '{}'; it takes: {}".format(
                spec, "', '".join(unknown), ", ".join(names) or "none"
            )
        )
    if data is not None and "data" not in known and not takes_all:
        raise ValueError(
            "workload '{}' takes no data, but '{}' was given; write its factory with a parameter data".format(
                spec, data
            )
        )
    missing = [name for name in needed if name not in args and name != "data"]
    if missing:
        raise ValueError(
            "workload '{}' needs a value for '{}'; write --workload-arg {}=VALUE".format(
                spec, "', '".join(missing), missing[0]
            )
        )
    if data is not None or "data" in needed:
        args = dict(args, data=data)
    if not users:
        return factory(**args)
    try:
        return factory(**args)
    except (Exception, SystemExit) as error:
        raise ValueError(
            "the factory of workload '{}' raised {}".format(spec, explain(error, file_of(spec)))
        ) from error


def _parameters(factory: Callable[..., Any]) -> Tuple[Tuple[str, ...], Tuple[str, ...], bool]:
    """Names that a factory takes as keywords, those among them without a default, and whether it takes any other."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # written in C
        return (), (), True
    keywords = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return (
        tuple(p.name for p in keywords),
        tuple(p.name for p in keywords if p.default is p.empty),
        any(p.kind == p.VAR_KEYWORD for p in parameters),
    )


def check_workload(spec: str, workload: Any) -> Any:
    """`workload`, if it has all that a workload must have.

    Raises:
        ValueError: names what is missing, or of the wrong kind.
    """
    subject = "what '{}' returned (of type {}) is no workload: ".format(spec, type(workload).__name__)
    missing = [form for name, form in METHODS if not callable(getattr(workload, name, None))]
    missing += [name for name in ("reference_batch", "reference_lr") if getattr(workload, name, None) is None]
    if missing:
        raise ValueError("{}it lacks {}".format(subject, ", ".join(missing)))
    batch, rate = workload.reference_batch, workload.reference_lr
    if isinstance(batch, bool) or not isinstance(batch, numbers.Integral) or batch < 1:
        raise ValueError("{}reference_batch must be a whole number >= 1, not {!r}".format(subject, batch))
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not 0 < float(rate) < math.inf:
        raise ValueError("{}reference_lr must be a positive number, not {!r}".format(subject, rate))
    evaluate = getattr(workload, "evaluate", None)
    if evaluate is not None and not callable(evaluate):
        raise ValueError("{}evaluate must be a method evaluate(model, batch), or left out".format(subject))
    return workload
