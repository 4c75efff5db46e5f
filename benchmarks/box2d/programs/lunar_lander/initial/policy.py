"""Burns the main engine whenever the lander falls faster than 2.5 m/s, whatever its angle and place."""


class LanderPolicy:
    def act(self, observation):
        x, y, x_velocity, y_velocity, angle, angular_velocity, right_leg, left_leg = observation
        return 2 if 7.5 * y_velocity < -2.5 else 0


def make_policy(context):
    return LanderPolicy()
