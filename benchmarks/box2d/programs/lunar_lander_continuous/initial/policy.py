"""Burns the main engine harder the faster the lander falls, whatever its angle and place."""


class LanderPolicy:
    def act(self, observation):
        x, y, x_velocity, y_velocity, angle, angular_velocity, right_leg, left_leg = observation
        fall = -7.5 * y_velocity - 2.5
        return [max(-1.0, min(1.0, 0.2 * fall)), 0.0]


def make_policy(context):
    return LanderPolicy()
