"""Quadratic programs on the simplex, small and many."""

from egmm.cluster.compiled import compiled

MOST_STEPS = 1000
"""Maximum number of pair moves per row; an unfinished row continues in the next sweep."""


@compiled
def minimise_on_simplex(Q, b, m, gradient):
    """Minimise ``m' Q m / 2 - b' m`` over the simplex from the masses `m`, which are overwritten.

    Mass moves from the set with the largest slope to the one with the smallest, by the exact step: any quadratic that
    is not concave along such a pair decreases with every step. `gradient` is a buffer of f numbers.
    """
    f = len(m)
    scale = 0.0
    for j in range(f):
        total = -b[j]
        for q in range(f):
            total += Q[j, q] * m[q]
        gradient[j] = total
        scale = max(scale, abs(b[j]) + abs(Q[j, j]))
    for _ in range(MOST_STEPS):
        up, down = 0, -1
        for j in range(f):
            if gradient[j] < gradient[up]:
                up = j
            if m[j] > 0.0 and (down < 0 or gradient[j] > gradient[down]):
                down = j
        slope = gradient[down] - gradient[up]
        if slope <= 1e-14 * scale:
            break
        curvature = Q[up, up] + Q[down, down] - 2.0 * Q[up, down]
        step = m[down]
        if curvature > 0.0 and slope < curvature * step:
            step = slope / curvature
            m[down] -= step
        else:
            m[down] = 0.0
        m[up] += step
        for j in range(f):
            gradient[j] += step * (Q[j, up] - Q[j, down])
