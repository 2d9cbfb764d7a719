"""Earlier records that a study learns from, and what the user should know of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from devices.errors import InputError
from devices.profile import Profile, read_profile
from tuner.checks import check_prior, gives_away
from tuner.library import ended_document, study_record
from tuner.outcome import Stopped
from tuner.store import Store, open_store
from tuner.study import Study

_FINISHED = (Stopped.CONVERGED.value, Stopped.BUDGET.value)
_LOOK_BACK = 100  # studies of a store that are looked at for one to learn from


def prior_records(named: Sequence[str], location: str) -> tuple[Profile, ...]:
    """The records named with `--prior`, studies from the store at `location`.

    Raises:
        InputError: neither a file nor a study, or nothing was measured yet.
        ProfileError: a file that is no profile.
    """
    if not named:
        return ()
    with closing(open_store(location)) as store:
        return tuple(prior_record(what, store) for what in named)


def prior_record(what: str, store: Store) -> Profile:
    """An earlier record to learn from: a recorded profile, or what a study in the store measured.

    Raises:
        InputError: neither a file nor a study, or nothing was measured yet.
        ProfileError: a file that is no profile.
    """
    if Path(what).is_file():
        return read_profile(Path(what))
    study = store.load(what)
    if study is None:
        raise InputError(
            f"--prior {what} is neither a file nor a study", hint="a recorded profile, or a name of: tune list"
        )
    if not any(trial.measurement for trial in study.trials):
        raise InputError(f"the study '{what}' measured nothing yet", hint="another --prior, or leave it out")
    return study_record(study)


def told_answers(named: Sequence[str], prior: Sequence[Profile], replay: Path | None) -> tuple[str, ...]:
    """A sentence for each of the records that holds the very profile that is replayed."""
    if replay is None or not prior:
        return ()
    table = read_profile(replay)
    return tuple(
        f"--prior {what} holds the very profile that is replayed: the answer is known beforehand, and the result is no "
        "test of anything"
        for what, record in zip(named, prior, strict=True)
        if gives_away(record, table)
    )


def earlier_study_note(study: Study, location: str) -> tuple[str, ...]:
    """A sentence that names the record `study` could have learnt from, if the store at `location` holds one."""
    with closing(open_store(location)) as store:
        name = earlier_study(store, study)
    if name is None:
        return ()
    return (f"an earlier study of this device can be learned from: --prior {shlex.quote(name)}",)


def earlier_study(store: Store, study: Study) -> str | None:
    """The newest finished study of the same device, with another question, that `study` could learn from; or None."""
    wanted = study.specification
    for name in reversed(store.names()[-_LOOK_BACK:]):
        stored = None if name == study.name else store.load(name)
        ended = ended_document(stored) if stored is not None else None
        if stored is None or ended is None or ended["stopped"] not in _FINISHED:
            continue
        found = stored.specification
        if any(found[key] != wanted[key] for key in ("device", "source")):
            continue
        if all(found[key] == wanted[key] for key in ("workload", "goal", "cap")):  # what --fresh set aside
            continue
        try:
            check_prior(study.info, [prior_record(name, store)])
        except InputError:  # of other knobs, or too short: of no use here
            continue
        return name
    return None
