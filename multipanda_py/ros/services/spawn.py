# SPDX-License-Identifier: Apache-2.0
"""Services of ``simulation_interfaces`` to add objects to the simulated scene and remove them."""

from __future__ import annotations

from typing import Any

import numpy as np
from geometry_msgs.msg import Vector3
from simulation_interfaces.msg import Bounds, Result, Spawnable
from simulation_interfaces.srv import DeleteEntity, GetSpawnables, SpawnEntity

from multipanda_py.cell import Cell
from multipanda_py.config.describe import movable_objects
from multipanda_py.exceptions import (
    LoopTimeout,
    SimulationRefused,
    TargetRejected,
    UnknownName,
)
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.services.entity_helpers import pose_in_world, refuse, until_entered

_WRONG = SpawnEntity.Response


class _Refused(Exception):
    """Rejected request, with the code of the answer."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class SpawnServices:
    """Services ``spawn_entity``, ``delete_entity`` and ``get_spawnables``.

    Entities are the objects of the cell file that have a mass, by the names in the file. Absent
    ones can be spawned.

    Args:
        node: Node that offers the services.
        cell: Cell whose arms are all simulated.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell, self._movable = cell, movable_objects(cell.config)
        node.serve(SpawnEntity, "spawn_entity", self._spawn)
        node.serve(DeleteEntity, "delete_entity", self._delete)
        node.create_service(GetSpawnables, "get_spawnables", self._list)

    def _spawn(self, request: Any, response: Any) -> Work:
        result = response.result
        try:
            obj = self._choose(request)
            header = request.initial_pose.header
            pose = pose_in_world(header.frame_id, request.initial_pose.pose)
            yield from until_entered(self._cell, self._cell.ask_spawn(obj, pose))
        except _Refused as error:
            refuse(result, error.code, error)
        except UnknownName as error:
            refuse(result, Result.RESULT_NOT_FOUND, error)
        except LoopTimeout as error:
            refuse(result, Result.RESULT_OPERATION_FAILED, error)
        except (SimulationRefused, TargetRejected) as error:
            refuse(result, _WRONG.INVALID_POSE, error)
        else:
            result.result, response.entity_name = Result.RESULT_OK, obj

    def _delete(self, request: Any, response: Any) -> Work:
        result = response.result
        try:
            yield from until_entered(self._cell, self._cell.ask_remove(request.entity))
        except UnknownName as error:
            refuse(result, Result.RESULT_NOT_FOUND, error)
        except LoopTimeout as error:
            refuse(result, Result.RESULT_OPERATION_FAILED, error)
        except SimulationRefused as error:
            is_absent = request.entity in self._cell.absent
            code = Result.RESULT_NOT_FOUND if is_absent else Result.RESULT_INCORRECT_STATE
            refuse(result, code, error)
        else:
            result.result = Result.RESULT_OK

    def _choose(self, request: Any) -> str:
        """Return the name of the object that a request selects."""
        # Since version 2.0 of the interfaces, both fields are in a separate message.
        resource = getattr(request, "entity_resource", request)
        if resource.resource_string:
            raise _Refused(
                _WRONG.UNSUPPORTED_FORMAT,
                "resource_string: got a description, allowed none. Objects are defined in the "
                "cell file, see get_spawnables",
            )
        if request.entity_namespace:
            raise _Refused(
                _WRONG.NAMESPACE_INVALID,
                f"entity_namespace: got {request.entity_namespace!r:.60}, allowed none, "
                "because objects have no ROS interfaces",
            )
        obj = str(resource.uri or request.name)
        if not obj:
            raise _Refused(
                _WRONG.NO_RESOURCE, "uri: missing, allowed the name of an absent object"
            )
        if obj not in self._movable:
            raise UnknownName("movable object", obj, tuple(self._movable))
        may_rename = request.allow_renaming
        if request.name not in ("", obj) and not may_rename:
            raise _Refused(
                _WRONG.NAME_INVALID,
                f"name: got {request.name!r:.60}, allowed {obj}, as in the cell file. Use "
                "that name or set allow_renaming",
            )
        if obj in self._cell.absent:
            return obj
        other = self._cell.absent_like(obj) if may_rename else ""
        if not other:
            like = (
                "no similar object is absent" if may_rename else "set allow_renaming for another"
            )
            raise _Refused(
                _WRONG.NAME_NOT_UNIQUE, f"name: got {obj}, which is in the scene; {like}"
            )
        return other

    def _list(self, request: Any, response: Any) -> Any:
        if request.sources:
            unknown = ", ".join(request.sources)
            response.result.error_message = (
                f"sources: got {unknown:.200}, allowed none; the cell is the only source"
            )
        for name in self._cell.absent:
            obj = self._cell.config.objects[name]
            item = Spawnable(description=f"{obj.shape} of {obj.mass:g} kg")
            getattr(item, "entity_resource", item).uri = name
            radius = float(np.linalg.norm(obj.size))
            if obj.shape == "capsule":
                radius = sum(obj.size)
            item.spawn_bounds.type = Bounds.TYPE_SPHERE
            item.spawn_bounds.points = [Vector3(), Vector3(x=radius)]
            response.spawnables.append(item)
        response.result.result = Result.RESULT_OK
        return response
