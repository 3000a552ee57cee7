"""Rejects configurations that cannot run, before any model loads: the table of rules."""

from collections.abc import Callable, Iterator

from rl.config import choices, consistency, ranges
from rl.config.errors import ConfigError
from rl.config.paths import validate_paths
from rl.config.schema import Config

__all__ = ["RULES", "ConfigError", "Rule", "validate", "validate_paths"]

# A rule yields one error for each thing that is wrong.
Rule = Callable[[Config], Iterator[ConfigError]]

# In this order: later rules may rely on earlier ones (numbers are finite and in range).
RULES: tuple[Rule, ...] = (
    choices.check_choices,
    ranges.check_finite,
    ranges.check_ranges,
    consistency.trained_seat_samples_everything,
    consistency.adapters_fit,
    consistency.dialogue_fits_context,
    consistency.groups_can_be_used,
    consistency.window_matches_horizon,
    consistency.adapter_has_targets,
    consistency.head_adapter_is_trainable,
    consistency.calibration_has_a_constraint,
    consistency.run_name_is_a_file_name,
    consistency.llm_judge_has_an_endpoint,
    consistency.betas_are_two_fractions,
    consistency.tasks_are_named,
    consistency.model_path_matches_source,
    consistency.user_adapter_is_used,
    consistency.devices_match,
    consistency.one_run_folder,
)


def validate(config: Config) -> None:
    """Check all values of ``config`` against :data:`RULES`; no file is looked at.

    Raises:
        ConfigError: the first rule that is broken, in one line: key, value, what is allowed.
    """
    for rule in RULES:
        for error in rule(config):
            raise error
