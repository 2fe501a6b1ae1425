# SPDX-License-Identifier: Apache-2.0
"""Announcements of a node with many services, at a pace at which others can take them.

Fast DDS, the usual middleware of ROS 2, tells every newcomer at once of all that a process has.
A node of a cell has hundreds of services; the receive buffer that Linux gives a socket by default
(212 kB, ``net.core.rmem_default``) holds less than a hundred messages. The rest is lost and said
again seconds later: until then clients do not find services, and ``ros2 param`` waits for five
seconds at most. Only the sender can help all of them: Fast DDS spreads announcements by a flow
controller, from release 3.2 on.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

VARIABLE = "FASTDDS_DEFAULT_PROFILES_FILE"
PROFILE = Path(__file__).with_name("dds_announcements.xml")
"""20 kB in 10 ms: about twenty messages. All of a cell with two arms takes some 0.2 s."""
OLDEST = (3, 2)
_OF_USERS = (VARIABLE, "FASTRTPS_DEFAULT_PROFILES_FILE")
_FOUND_BY_ITSELF = ("DEFAULT_FASTDDS_PROFILES.xml", "DEFAULT_FASTRTPS_PROFILES.xml")
_LIBRARY = re.compile(r"^libfastdds\.so\.(\d+)\.(\d+)")


def pace_announcements(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Have the participants of this process announce what they have little by little.

    A profile of the user's own stays the only one.

    Args:
        environment: Of this process; the variable that names the profile is added to it.

    Returns:
        Whether they will.

    Thread: main, before the first participant.
    """
    if any(environment.get(name) for name in _OF_USERS):
        return False
    if any(Path(name).exists() for name in _FOUND_BY_ITSELF):
        return False
    prefixes = filter(None, environment.get("AMENT_PREFIX_PATH", "").split(os.pathsep))
    if not any(_release(Path(prefix)) >= OLDEST for prefix in prefixes):
        return False
    environment[VARIABLE] = str(PROFILE)
    return True


def _release(prefix: Path) -> tuple[int, int]:
    """Return the release of Fast DDS that is installed there; (0, 0) if none that it tells is."""
    lib = prefix / "lib"
    for path in [*lib.glob("libfastdds.so.*"), *lib.glob("*/libfastdds.so.*")]:
        if found := _LIBRARY.match(path.name):
            return int(found[1]), int(found[2])
    return 0, 0
