"""Goes round the block to the side away from the goal and pushes it there along a straight line."""

import numpy as np

BEHIND = 0.06
CLEAR = 0.075
HEIGHT = 0.42
GAIN = 1.0
GLIDE = 1.5
NEAR = 0.12


class Push:
    def act(self, observation):
        seen = observation["observation"]
        gripper, block, speed = seen[:3], seen[3:6], seen[20:23]
        to_goal = (observation["desired_goal"] - block)[:2]
        distance = float(np.linalg.norm(to_goal))
        along = to_goal / max(distance, 1e-9)
        glide = float(speed[:2] @ along) * GLIDE
        if distance < 0.02 or (
            distance < NEAR and distance - glide < 0.015
        ):  # there, or gliding there: let go of it
            away = (gripper - block)[:2]
            target = block[:2] + away / max(np.linalg.norm(away), 1e-9) * CLEAR
            return self.move(np.array([*target, HEIGHT]), gripper)
        across = np.array([-along[1], along[0]])
        offset = (gripper - block)[:2]
        lead, side = float(offset @ along), float(offset @ across)
        if (
            lead < -0.02 and abs(side) < 0.02
        ):  # behind the block, on the line: push, and correct what it drifts off
            step = np.clip(distance - glide, 0.012, 0.08)
            target = gripper[:2] + along * step - across * side * 1.5
        else:
            target = self.round(block[:2], gripper[:2], block[:2] - along * BEHIND)
        return self.move(np.array([*target, HEIGHT]), gripper)

    def round(self, block, gripper, target):
        """The next point on the way to `target` that keeps CLEAR of the block."""
        way = target - gripper
        length = np.linalg.norm(way)
        if length < 1e-6:
            return target
        nearest = gripper + way * np.clip((block - gripper) @ way / length**2, 0, 1)
        gap = nearest - block
        if np.linalg.norm(gap) >= BEHIND - 0.012:
            return target
        offset = gripper - block
        radius = np.linalg.norm(offset)
        turn = np.sign(offset[0] * (target - block)[1] - offset[1] * (target - block)[0]) or 1.0
        angle = turn * 0.7
        rotated = np.array(
            [
                np.cos(angle) * offset[0] - np.sin(angle) * offset[1],
                np.sin(angle) * offset[0] + np.cos(angle) * offset[1],
            ]
        )
        return block + rotated / radius * max(CLEAR, min(radius, 0.1))

    def move(self, target, gripper):
        return np.append(np.clip(GAIN * (target - gripper) / 0.05, -1, 1), 0.0).astype(np.float32)


def make_policy(_context):
    return Push()
