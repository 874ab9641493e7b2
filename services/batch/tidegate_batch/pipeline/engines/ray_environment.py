"""What Ray reads from the environment alone, some of it when it is imported.

Started by us, Ray listens on loopback only, demands a token that no file holds, and reports to
nobody.
"""

import os
import secrets


def choose_ray_environment() -> None:
    """Set what we need, before Ray is imported; what the operator has set stays."""
    chosen = {
        "PYTHONSAFEPATH": "1",  # no module of the current folder takes the place of one of Ray's
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),  # else Ray writes one into the home folder
        # Where Ray supports no clusters it binds to loopback; here there is no cluster either.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_COLOR_PREFIX": "0",  # else what it tells of dead workers is coloured in a log, too
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of a change to come
    }
    for name, value in chosen.items():
        os.environ.setdefault(name, value)
