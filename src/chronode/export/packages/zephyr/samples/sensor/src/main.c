/* Reads a sensor for every input once a second, and prints the prediction after each observation. */
#include <zephyr/device.h>
#include <zephyr/drivers/sensor.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <@NAME@.h>

static @NAME@_state first, second; /* two series side by side, each with its own state */

static void observe(@NAME@_state *state, const struct device *sensor, float dt)
{
    float x[@UPPER@_INPUTS], y[@UPPER@_OUTPUTS];
    struct sensor_value value;
    sensor_sample_fetch(sensor);
    for (int i = 0; i < @UPPER@_INPUTS; ++i) {
        sensor_channel_get(sensor, (enum sensor_channel)i, &value); /* one channel per input of the model */
        x[i] = sensor_value_to_float(&value);
    }
    if (@NAME@_step(state, x, 0, dt, y) != 0) {
        printk("the observation was refused\n");
        return;
    }
    for (int i = 0; i < @UPPER@_OUTPUTS; ++i) {
        printk("%s %f\n", @NAME@_output_names[i], (double)y[i]);
    }
}

int main(void)
{
    const struct device *const sensor = DEVICE_DT_GET(DT_ALIAS(sensor0));
    uint32_t before = k_uptime_get_32();
    @NAME@_init(&first);
    @NAME@_init(&second);
    for (;;) {
        k_sleep(K_SECONDS(1));
        const uint32_t now = k_uptime_get_32();
        const float dt = @GAP(now - before)@; /* in the unit of time of the training data */
        before = now;
        observe(&first, sensor, dt);
        observe(&second, sensor, dt);
    }
    return 0;
}
