"""`optuna-tpe` and `optuna-gp`: Optuna's samplers with the cap as constraint. Optuna is the optional extra `arena`."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from devices.device import Setting
from devices.errors import UnsupportedError
from tuner.problem import Problem
from tuner.space import Space
from tuner.strategies.experiment import rng_seed
from tuner.strategies.proposal import ProposingStrategy, excess, goal_value
from tuner.trial import Trial

if TYPE_CHECKING:  # importing it takes time and may fail: see `require_optuna`
    import optuna
    from optuna.distributions import IntDistribution

Sampler = Literal["tpe", "gp"]

_RANDOM_FIRST = 5  # Optuna's own 10 are for budgets of hundreds
_MAX_REJECTIONS = 4  # of settings that cannot be measured or were, before the nearest untried one is taken
_CAP = "cap"  # name of the constraint


class _OptunaStrategy(ProposingStrategy):
    sampler: Sampler

    def __init__(self) -> None:
        require_optuna(self.name)

    def propose(self, problem: Problem, trials: Sequence[Trial]) -> Setting | None:
        return ask_optuna(problem, trials, self.sampler, _RANDOM_FIRST)


class OptunaTPEStrategy(_OptunaStrategy):
    """The tree-structured Parzen estimator (Bergstra et al. 2011) as Optuna has it, constrained as in c-TPE (Watanabe
    and Hutter 2023); after 5 random settings. Converges when no setting is left."""

    name = "optuna-tpe"
    sampler = "tpe"


class OptunaGPStrategy(_OptunaStrategy):
    """Optuna's Gaussian process with constrained expected improvement (Gardner et al. 2014); after 5 random settings.
    Converges when no setting is left."""

    name = "optuna-gp"
    sampler = "gp"


def require_optuna(strategy: str) -> None:
    """Check that Optuna is here, without importing it.

    Raises:
        UnsupportedError: it is not installed.
    """
    if importlib.util.find_spec("optuna") is None:
        raise UnsupportedError(
            f"the strategy {strategy} needs Optuna, which is not installed", hint="pip install 'taste-tuner[arena]'"
        )


def ask_optuna(problem: Problem, trials: Sequence[Trial], sampler: Sampler, random_first: int) -> Setting | None:
    """The next setting by a sampler of Optuna, or None when all were tried; a function of its arguments alone.

    The study is built anew from the trials each time. Pending ones are told as running, which both samplers avoid.
    """
    space = problem.open_space(trials)
    untried = space.untried(trial.setting for trial in trials)
    if len(untried) < 2 or not space.free:
        return untried[0] if untried else None
    with _quiet():
        return _OptunaStudy(problem, space, trials, sampler, random_first).ask(untried)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Optuna reports every study it creates, on the error output."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


class _OptunaStudy:
    """An Optuna study that knows the trials.

    A knob is given to Optuna as the rank of its value: as categories the values would lose their order, and as numbers
    their uneven steps (624.75 MHz) would have to be rounded. The domain ends below the smallest batch that ran out of
    memory, so the trials beyond it are left out.
    """

    def __init__(
        self, problem: Problem, space: Space, trials: Sequence[Trial], sampler: Sampler, random_first: int
    ) -> None:
        import optuna

        self._space = space
        self._ranks: dict[str, IntDistribution] = {
            knob.name: optuna.distributions.IntDistribution(0, len(knob.values) - 1) for knob in space.free
        }
        seed = rng_seed(problem.seed, len(trials))
        self._study = optuna.create_study(
            direction="maximize" if problem.goal.maximize else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=random_first)
            if sampler == "tpe"
            else optuna.samplers.GPSampler(seed=seed, n_startup_trials=random_first),
        )
        inside = [trial for trial in trials if trial.setting in space]
        found = {trial.index: goal_value(problem, trial) for trial in inside}
        values = [value for value in found.values() if value is not None]
        worst = None if not values else min(values) if problem.goal.maximize else max(values)
        # What cannot be measured is told as the worst seen, far above the cap: the samplers overlook failed trials, and
        # the GP would propose the same setting for ever.
        self._unmeasurable = (worst, {} if problem.cap is None else {_CAP: 1.0})
        self._answers: dict[tuple[float, ...], tuple[float | None, dict[str, float]] | None] = {}
        for trial in inside:
            above, value = excess(problem, trial), found[trial.index]
            answer: tuple[float | None, dict[str, float]] | None = None
            if not trial.pending:
                answer = self._unmeasurable
                if above is not None:
                    answer = (worst if value is None else value, {} if problem.cap is None else {_CAP: above})
            self._add(trial.setting, answer)
            self._answers[space.key(trial.setting)] = answer

    def _add(self, setting: Setting, answer: tuple[float | None, dict[str, float]] | None) -> None:
        from optuna.trial import TrialState, create_trial

        value, constraints = answer or (None, {})
        state = TrialState.RUNNING if answer is None else TrialState.FAIL if value is None else TrialState.COMPLETE
        params = {k.name: k.values.index(setting[k.name]) for k in self._space.free}
        trial = create_trial(
            state=state, value=value, params=params, distributions={**self._ranks}, constraints=constraints
        )
        self._study.add_trial(trial)

    def ask(self, untried: Sequence[Setting]) -> Setting:
        """The first proposal that is untried; after several others the untried setting nearest to the last."""
        for _ in range(_MAX_REJECTIONS):
            asked = self._study.ask({**self._ranks})
            proposal = {knob.name: knob.values[asked.params.get(knob.name, 0)] for knob in self._space.knobs}
            key = self._space.key(proposal)
            if proposal in untried:
                break
            self._reject(asked, self._answers.get(key, self._unmeasurable))
        else:
            return self._space.nearest(proposal, untried)
        return proposal

    def _reject(self, asked: optuna.Trial, answer: tuple[float | None, dict[str, float]] | None) -> None:
        """Tell what is known of a setting: Optuna's own advice on duplicates. Pending ones stay running."""
        from optuna.trial import TrialState

        if answer is None:
            return
        value, constraints = answer
        for name, above in constraints.items():
            asked.set_constraint(name, above)
        self._study.tell(asked, value, TrialState.FAIL if value is None else TrialState.COMPLETE)
