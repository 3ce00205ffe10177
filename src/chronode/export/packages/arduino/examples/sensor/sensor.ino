// Reads a sensor for every input once a second, and prints the prediction after each observation.
#include <@NAME@.h>

static @NAME@_state first, second;  // two series side by side, each with its own state
static unsigned long before;

static void observe(@NAME@_state *state, int pin, float dt) {
  float x[@UPPER@_INPUTS], y[@UPPER@_OUTPUTS];
  for (int i = 0; i < @UPPER@_INPUTS; ++i) {
    x[i] = analogRead(pin + i);  // convert to the units of the training data here
  }
  if (@NAME@_step(state, x, 0, dt, y) != 0) {
    Serial.println("the observation was refused");
    return;
  }
  for (int i = 0; i < @UPPER@_OUTPUTS; ++i) {
    Serial.print(@NAME@_output_names[i]);
    Serial.print(' ');
    Serial.println(y[i], 4);
  }
}

void setup() {
  Serial.begin(115200);
  @NAME@_init(&first);
  @NAME@_init(&second);
  before = millis();
}

void loop() {
  delay(1000);
  const unsigned long now = millis();
  const float dt = @GAP(now - before)@;  // in the unit of time of the training data
  before = now;
  observe(&first, A0, dt);
  observe(&second, A0 + @UPPER@_INPUTS, dt);
}
