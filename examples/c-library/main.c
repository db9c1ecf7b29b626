/* Finds the stiffness and the damping of a spring from where it was at two times. */
#include <math.h>
#include <stdio.h>

#include "spring.h"

int main(void)
{
    const double times[2] = {0.8, 2.0}, seen[2] = {-0.15, -0.35};
    double stiffness = 3.0, damping = 0.2, loss = 0.0;
    for (int step = 0; step < 300; step++) {
        double d_stiffness = 0.0, d_damping = 0.0;
        loss = 0.0;
        for (int k = 0; k < 2; k++) {
            double x, ds, dd;
            int status = spring(stiffness, damping, times[k], &x);
            if (!status)
                status = spring_bwd(stiffness, damping, times[k], 2.0 * (x - seen[k]), &ds, &dd);
            if (status) {
                fprintf(stderr, "%s\n", spring_message(status));
                return 1;
            }
            loss += (x - seen[k]) * (x - seen[k]);
            d_stiffness += ds;
            d_damping += dd;
        }
        stiffness -= 2.0 * d_stiffness;
        damping -= 2.0 * d_damping;
    }
    printf("stiffness %.4f, damping %.4f, loss %.2g\n", stiffness, damping, loss);

    float states[100][2], energies[100];
    for (int k = 0; k < 100; k++) {
        states[k][0] = cosf(0.1f * k);
        states[k][1] = sinf(0.1f * k);
    }
    const pullback_buffer buffers[2] = {{states, 100}, {energies, 100}};
    int status = energy(buffers, 2, 1, 1);
    printf("energy %.3f\n", status ? 0.0f : energies[99]);
    return loss < 1e-6 && fabsf(energies[99] - 0.5f) < 1e-6f ? 0 : 1;
}
