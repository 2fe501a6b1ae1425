# SPDX-License-Identifier: Apache-2.0
"""How this process lets itself be found by others of the middleware.

With every topic and service Fast DDS 3 announces that the layout of its type may be asked for, and
who hears of it asks before it counts the endpoint as found. Where somebody who has asked is killed
before the answer, later ones get none: each of them is told of half of the services and of two
topics of forty, for as long as the announcing process lives, and waits for the others. ROS needs
no such answers, as it compares types by name and hash. So nobody is told.
"""

from __future__ import annotations

import os
from pathlib import Path

from multipanda_py.exceptions import ConfigurationError

VARIABLE = "FASTDDS_DEFAULT_PROFILES_FILE"
PROFILE = Path(__file__).with_name("without_types.xml")
LAST_DOMAIN = 232
"""By the ports that DDS has: RTPS 2.2, 9.6.1.1."""
_OF_USERS = ("FASTRTPS_DEFAULT_PROFILES_FILE", VARIABLE)
_IN_FOLDERS = ("DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml")


def where_to_look() -> str:
    """Ask what may be why nobody is found, to stand behind a message that says so."""
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return (
        f": is the namespace that of the cell, and ROS_DOMAIN_ID, which is {domain} here? Between "
        "machines both need ROS_AUTOMATIC_DISCOVERY_RANGE=SUBNET"
    )


def refuse_domain() -> None:
    """Refuse a domain that ROS cannot have: it ends in a traceback, and Fast DDS ends the process.

    Raises:
        ConfigurationError: If ``ROS_DOMAIN_ID`` is none.
    """
    domain = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not domain.isdecimal() or int(domain) > LAST_DOMAIN:
        raise ConfigurationError(f"ROS_DOMAIN_ID: got {domain}, allowed 0 to {LAST_DOMAIN}")


def announce_without_types() -> None:
    """Have Fast DDS announce no types, unless the user has a profile of their own.

    Another middleware does not look at it.

    Thread: the main one, before the first context of ROS.
    """
    if any(os.environ.get(name) for name in _OF_USERS):
        return
    if any(Path(name).exists() for name in _IN_FOLDERS):  # of the working folder, as Fast DDS does
        return
    os.environ[VARIABLE] = str(PROFILE)
