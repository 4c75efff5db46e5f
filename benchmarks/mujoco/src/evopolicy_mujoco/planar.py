"""Bodies that move in a plane: HalfCheetah, Hopper, Walker2d, Swimmer."""

from __future__ import annotations

from evopolicy.authoring import Field, Measure, Profile
from evopolicy_mujoco.parts import (
    CONTROL,
    CONTROL_REWARD,
    DISTANCE,
    FELL,
    FORWARD,
    FORWARD_REWARD,
    FORWARD_SPEED,
    SIDEWAYS,
    SIDEWAYS_SPEED,
    SPEED,
    SURVIVE,
    SURVIVE_REWARD,
    TOP_SPEED,
    TRACKED,
    X_POSITION,
    Y_POSITION,
    Joint,
    angles,
    torques,
    velocities,
)

_HIDDEN_X = "The distance covered is no part of the observation."
_TORSO_VELOCITIES = (
    Field("x_velocity", "m/s", meaning="Of the torso, positive forward."),
    Field("z_velocity", "m/s", meaning="Of the torso, positive upward."),
    Field("torso_angular_velocity", "rad/s", meaning="Of torso_angle."),
)
_PITCH = Measure(
    "mean_abs_torso_angle", "rad", "Mean lean of the torso.", "torso_angle", "mean_abs"
)
_FINAL_PITCH = Measure(
    "final_torso_angle", "rad", "Lean of the torso at the end.", "torso_angle", "last"
)
_FINAL_HEIGHT = Measure(
    "final_torso_height", "m", "Height of the torso at the end.", "torso_height", "last"
)

_CHEETAH_JOINTS = (
    Joint("back_thigh", "Of the back thigh against the torso", -0.52, 1.05, 120),
    Joint("back_shin", "Of the back shin against the thigh", -0.785, 0.785, 90),
    Joint("back_foot", "Of the back foot against the shin", -0.4, 0.785, 60),
    Joint("front_thigh", "Of the front thigh against the torso", -1.0, 0.7, 120),
    Joint("front_shin", "Of the front shin against the thigh", -1.2, 0.87, 60),
    Joint("front_foot", "Of the front foot against the shin", -0.5, 0.5, 30),
)

HALF_CHEETAH = Profile(
    slug="half_cheetah",
    id="mujoco/HalfCheetah-v5",
    env_id="HalfCheetah-v5",
    title="HalfCheetah",
    goal=(
        "A body of a torso, a back leg and a front leg, each with thigh, shin and foot, moves in "
        "the vertical plane over flat ground. Six motors turn its joints. Make it run forward "
        "(positive x) as fast as possible, without wasting torque.\n\n"
        "It weighs 14 kg; a step lasts 0.05 s. Joints have springs and dampers that pull them "
        "back to 0. Every Episode starts standing, each position off by up to 0.1 and each "
        "velocity by a normal number of deviation 0.1."
    ),
    scoring=(
        "Every step gives the reward `forward - control`: `forward` is the mean forward speed of "
        "the torso over the step in m/s, `control` is 0.1 times the sum of the squared Actions (0 "
        "to 0.6). The score of an Episode is the sum over its 1,000 steps. A Policy that fails in "
        "an Episode scores at most -1000 in it. There is no least sum, since running backward "
        "costs without limit; full torque on the spot costs 600."
    ),
    ending="Never terminated, whatever the posture: it may go on lying on its back. **Truncated** "
    "after 1,000 steps.",
    failure_score=-1000.0,
    observation_fields=(
        Field(
            "torso_height", "m", meaning="Of the torso above its height when standing, which is 0."
        ),
        Field(
            "torso_angle",
            "rad",
            meaning="Pitch of the torso: 0 level, positive when the head goes down.",
        ),
        *angles(_CHEETAH_JOINTS),
        *_TORSO_VELOCITIES,
        *velocities(_CHEETAH_JOINTS),
    ),
    observation_text=_HIDDEN_X,
    action_fields=torques(_CHEETAH_JOINTS),
    action_text="An array of six numbers, each the share of its motor's largest torque.",
    columns=(X_POSITION, FORWARD_SPEED, FORWARD, CONTROL),
    measures=(
        DISTANCE,
        SPEED,
        TOP_SPEED,
        FORWARD_REWARD,
        CONTROL_REWARD,
        _PITCH,
        Measure(
            "final_torso_angle",
            "rad",
            "Near pi or -pi it ended on its back.",
            "torso_angle",
            "last",
        ),
    ),
    drawing=TRACKED,
)

_HOPPER_JOINTS = (
    Joint("thigh", "Of the thigh against the torso", -2.618, 0.0, 200),
    Joint("leg", "Of the leg against the thigh (the knee)", -2.618, 0.0, 200),
    Joint("foot", "Of the foot against the leg", -0.785, 0.785, 200),
)
_UPRIGHT_FIELDS = (
    Field("torso_height", "m", meaning="Of the torso above the ground; 1.25 when standing."),
    Field("torso_angle", "rad", meaning="Lean of the torso: 0 upright, positive forward."),
)
_UP_REWARD = (
    "Every step gives the reward `1 + forward - control`: `forward` is the mean forward speed of "
    "the torso over the step in m/s, `control` is 0.001 times the sum of the squared Actions; the "
    "step in which it falls gives no 1. The score of an Episode is the sum. A Policy that fails "
    "in an Episode scores at most -100 in it, less than falling over at once or being thrown "
    "backward."
)

HOPPER = Profile(
    slug="hopper",
    id="mujoco/Hopper-v5",
    env_id="Hopper-v5",
    title="Hopper",
    goal=(
        "One leg of thigh, leg and foot carries a torso in the vertical plane over flat ground. "
        "Three motors turn its joints. Make it hop forward (positive x) as fast as possible "
        "without falling.\n\n"
        "It weighs 16 kg; a step lasts 0.008 s. Every Episode starts upright, each position and "
        "velocity off by up to 0.005."
    ),
    scoring=_UP_REWARD,
    ending=(
        "**Terminated** when the torso is below 0.7 m, or leans more than 0.2 rad, or any angle "
        "or velocity leaves -100 to 100. **Truncated** after 1,000 steps."
    ),
    failure_score=-100.0,
    observation_fields=(
        *_UPRIGHT_FIELDS,
        *angles(_HOPPER_JOINTS),
        *_TORSO_VELOCITIES,
        *velocities(_HOPPER_JOINTS),
    ),
    observation_text=f"{_HIDDEN_X} Velocities are cut to -10 to 10.",
    action_fields=torques(_HOPPER_JOINTS),
    action_text="An array of three numbers, each the share of its motor's largest torque.",
    columns=(X_POSITION, FORWARD_SPEED, FORWARD, CONTROL, SURVIVE),
    measures=(
        FELL,
        DISTANCE,
        SPEED,
        FORWARD_REWARD,
        CONTROL_REWARD,
        SURVIVE_REWARD,
        _FINAL_PITCH,
        _FINAL_HEIGHT,
    ),
    drawing=TRACKED,
)

_WALKER_JOINTS = (
    Joint("right_thigh", "Of the right thigh against the torso", -2.618, 0.0, 100),
    Joint("right_leg", "Of the right leg against the thigh (the knee)", -2.618, 0.0, 100),
    Joint("right_foot", "Of the right foot against the leg", -0.785, 0.785, 100),
    Joint("left_thigh", "Of the left thigh against the torso", -2.618, 0.0, 100),
    Joint("left_leg", "Of the left leg against the thigh (the knee)", -2.618, 0.0, 100),
    Joint("left_foot", "Of the left foot against the leg", -0.785, 0.785, 100),
)

WALKER2D = Profile(
    slug="walker2d",
    id="mujoco/Walker2d-v5",
    env_id="Walker2d-v5",
    title="Walker2d",
    goal=(
        "Two legs of thigh, leg and foot carry a torso in the vertical plane over flat ground. "
        "Six motors turn its joints. Make it walk or run forward (positive x) as fast as possible "
        "without falling.\n\n"
        "It weighs 24 kg; a step lasts 0.008 s. Every Episode starts upright, each position and "
        "velocity off by up to 0.005."
    ),
    scoring=_UP_REWARD,
    ending=(
        "**Terminated** when the torso's height leaves 0.8 to 2.0 m or it leans more than 1 rad. "
        "**Truncated** after 1,000 steps."
    ),
    failure_score=-100.0,
    observation_fields=(
        *_UPRIGHT_FIELDS,
        *angles(_WALKER_JOINTS),
        *_TORSO_VELOCITIES,
        *velocities(_WALKER_JOINTS),
    ),
    observation_text=f"{_HIDDEN_X} Velocities are cut to -10 to 10.",
    action_fields=torques(_WALKER_JOINTS),
    action_text="An array of six numbers, each the share of its motor's largest torque.",
    columns=(X_POSITION, FORWARD_SPEED, FORWARD, CONTROL, SURVIVE),
    measures=(
        FELL,
        DISTANCE,
        SPEED,
        FORWARD_REWARD,
        CONTROL_REWARD,
        SURVIVE_REWARD,
        _FINAL_PITCH,
        _FINAL_HEIGHT,
    ),
    drawing=TRACKED,
)

_SWIMMER_JOINTS = (
    Joint("front_joint", "Between the front and the middle segment", -1.745, 1.745, 150),
    Joint("back_joint", "Between the middle and the back segment", -1.745, 1.745, 150),
)

SWIMMER = Profile(
    slug="swimmer",
    id="mujoco/Swimmer-v5",
    env_id="Swimmer-v5",
    title="Swimmer",
    goal=(
        "Three segments in a row float in a viscous fluid, seen from above. Two motors turn the "
        "joints between them. Make it swim in the direction of positive x as fast as possible.\n\n"
        "Each segment is 1 m long; a step lasts 0.04 s. Every Episode starts straight, the front "
        "towards positive x, each position and velocity off by up to 0.1."
    ),
    scoring=(
        "Every step gives the reward `forward - control`: `forward` is the mean speed of the "
        "front segment along x in this step in m/s, `control` is 0.0001 times the sum of the "
        "squared Actions. The score of an Episode is the sum over its 1,000 steps. A Policy that "
        "fails in an Episode scores at most -400 in it, about what swimming the wrong way at full "
        "speed would cost."
    ),
    ending="Never terminated. **Truncated** after 1,000 steps.",
    failure_score=-400.0,
    observation_fields=(
        Field(
            "front_angle",
            "rad",
            meaning="Direction of the front segment: 0 along x, positive counter-clockwise.",
        ),
        *angles(_SWIMMER_JOINTS),
        Field("x_velocity", "m/s", meaning="Of the front segment along x."),
        Field("y_velocity", "m/s", meaning="Of the front segment along y."),
        Field("front_angular_velocity", "rad/s", meaning="Of front_angle."),
        *velocities(_SWIMMER_JOINTS),
    ),
    observation_text="Where it is, is no part of the observation.",
    action_fields=torques(_SWIMMER_JOINTS),
    action_text="An array of two numbers, each the share of its motor's largest torque.",
    columns=(X_POSITION, Y_POSITION, FORWARD_SPEED, SIDEWAYS_SPEED, FORWARD, CONTROL),
    measures=(
        DISTANCE,
        SPEED,
        SIDEWAYS,
        FORWARD_REWARD,
        CONTROL_REWARD,
        Measure(
            "final_front_angle",
            "rad",
            "Direction of the front segment at the end.",
            "front_angle",
            "last",
        ),
    ),
    drawing=TRACKED,
)
