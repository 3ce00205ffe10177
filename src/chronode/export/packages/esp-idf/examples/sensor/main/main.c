/* Reads an analog input for every input once a second, and prints the prediction after each observation. */
#include <stdint.h>
#include <stdio.h>

#include "esp_adc/adc_oneshot.h"
#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"

#include "@NAME@.h"

static @NAME@_state first, second; /* two series side by side, each with its own state */

static void observe(@NAME@_state *state, adc_oneshot_unit_handle_t sensor, float dt)
{
    float x[@UPPER@_INPUTS], y[@UPPER@_OUTPUTS];
    for (int i = 0; i < @UPPER@_INPUTS; ++i) {
        int raw = 0;
        adc_oneshot_read(sensor, (adc_channel_t)i, &raw);
        x[i] = (float)raw; /* convert to the units of the training data here */
    }
    if (@NAME@_step(state, x, 0, dt, y) != 0) {
        printf("the observation was refused\n");
        return;
    }
    for (int i = 0; i < @UPPER@_OUTPUTS; ++i) {
        printf("%s %f\n", @NAME@_output_names[i], (double)y[i]);
    }
}

void app_main(void)
{
    adc_oneshot_unit_handle_t sensor;
    const adc_oneshot_unit_init_cfg_t unit = {.unit_id = ADC_UNIT_1};
    const adc_oneshot_chan_cfg_t channel = {.atten = ADC_ATTEN_DB_12, .bitwidth = ADC_BITWIDTH_DEFAULT};
    adc_oneshot_new_unit(&unit, &sensor);
    for (int i = 0; i < @UPPER@_INPUTS; ++i) {
        adc_oneshot_config_channel(sensor, (adc_channel_t)i, &channel);
    }
    int64_t before = esp_timer_get_time() / 1000;
    @NAME@_init(&first);
    @NAME@_init(&second);
    for (;;) {
        vTaskDelay(pdMS_TO_TICKS(1000));
        const int64_t now = esp_timer_get_time() / 1000;
        const float dt = @GAP(now - before)@; /* in the unit of time of the training data */
        before = now;
        observe(&first, sensor, dt);
        observe(&second, sensor, dt);
    }
}
