# SPDX-License-Identifier: Apache-2.0
"""Driver processes between the loop and real arms: shared memory, watchdog, torque limiter."""
