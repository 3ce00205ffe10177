"""Libraries for microcontrollers: the files that each tool reads, an example that compiles, the model's own check."""

import json
import shutil
import subprocess

import pytest
import yaml

import chronode
from chronode.export import export
from chronode.export._packages import PACKAGES

# Stand-ins for the headers of the tools: what the examples call, with the types of the real ones.
STUBS = {
    "Arduino.h": """#pragma once
enum { A0 = 14 };
inline int analogRead(int) { return 0; }
inline unsigned long millis() { return 0; }
inline void delay(unsigned long) {}
struct Port { void begin(long) {} void print(const char *) {} void print(char) {} void println(const char *) {}
              void println(double, int) {} };
static Port Serial;
""",
    "zephyr/device.h": "struct device { int x; };\nstatic const struct device one;\n#define DEVICE_DT_GET(x) (&one)\n",
    "zephyr/drivers/sensor.h": """struct sensor_value { int val1, val2; };
enum sensor_channel { SENSOR_CHAN_ACCEL_X };
static inline int sensor_sample_fetch(const struct device *d) { return d->x; }
static inline int sensor_channel_get(const struct device *d, enum sensor_channel c, struct sensor_value *v)
{ v->val1 = (int)c; v->val2 = 0; return d->x; }
static inline float sensor_value_to_float(const struct sensor_value *v) { return (float)v->val1; }
""",
    "zephyr/kernel.h": """#include <stdint.h>
#define K_SECONDS(n) (n)
static inline int k_sleep(int n) { return n; }
static inline uint32_t k_uptime_get_32(void) { return 0; }
""",
    "zephyr/sys/printk.h": "#include <stdio.h>\n#define printk printf\n",
    "esp_adc/adc_oneshot.h": """typedef struct x *adc_oneshot_unit_handle_t;
typedef int adc_channel_t;
typedef struct { int unit_id; } adc_oneshot_unit_init_cfg_t;
typedef struct { int atten, bitwidth; } adc_oneshot_chan_cfg_t;
enum { ADC_UNIT_1, ADC_ATTEN_DB_12, ADC_BITWIDTH_DEFAULT };
int adc_oneshot_new_unit(const adc_oneshot_unit_init_cfg_t *, adc_oneshot_unit_handle_t *);
int adc_oneshot_config_channel(adc_oneshot_unit_handle_t, adc_channel_t, const adc_oneshot_chan_cfg_t *);
int adc_oneshot_read(adc_oneshot_unit_handle_t, adc_channel_t, int *);
""",
    "esp_timer.h": "#include <stdint.h>\nint64_t esp_timer_get_time(void);\n",
    "freertos/FreeRTOS.h": "#define pdMS_TO_TICKS(n) (n)\n",
    "freertos/task.h": "void vTaskDelay(int);\n",
}
EXAMPLES = {
    "arduino": "examples/sensor/sensor.ino",
    "platformio": "examples/sensor/src/main.cpp",
    "zephyr": "samples/sensor/src/main.c",
    "esp-idf": "examples/sensor/main/main.c",
}


@pytest.fixture(scope="module")
def model():
    return chronode.SequenceModel.build(chronode.ModelSpec("fastgrnn", 2, 2, hidden_size=4))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stubs")
    for name, text in STUBS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_there_is_an_example_for_every_tool():
    assert set(PACKAGES) == set(EXAMPLES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_checks_itself_and_its_example_compiles(model, stubs, tmp_path, package):
    done = export(model, tmp_path / "gait", name="gait", package=package, unit="hours", classes=["no", "yes"])
    folder = done.folder
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(done.files)
    assert not [
        file for file in done.files if "@" in (folder / file).read_text().replace("@found", "").replace("@if", "")
    ]
    checked = subprocess.run(["make", "check", "COMPILERS=gcc"], cwd=folder, capture_output=True, text=True)
    assert checked.returncode == 0 and "ok" in checked.stdout, checked.stdout + checked.stderr
    example = folder / EXAMPLES[package]
    assert "/ 3600000.0f" in example.read_text()
    language, before = ("c", []) if example.suffix == ".c" else ("c++", ["-include", "Arduino.h"])
    flags = ["-fsyntax-only", "-Wall", "-Werror", f"-I{stubs}", f"-I{folder / 'src'}", *before, "-x", language]
    compiled = subprocess.run(["gcc", *flags, example], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs the Debian package gcc-arm-none-eabi")
@pytest.mark.parametrize("package", PACKAGES)
def test_the_model_of_a_package_compiles_for_a_cortex_m4(model, tmp_path, package):
    folder = export(model, tmp_path, name="gait", package=package, math="builtin").folder
    flags = ["-mcpu=cortex-m4", "-mthumb", "-std=c99", "-Os", "-ffreestanding", "-nostdinc", "-Wall", "-Werror"]
    compiled = subprocess.run(
        ["arm-none-eabi-gcc", *flags, "-c", "-o", tmp_path / "gait.o", folder / "src" / "gait.c"],
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr


def test_the_descriptions_are_what_the_tools_read(model, tmp_path):
    for package in PACKAGES:
        export(model, tmp_path / package, name="gait", package=package)
    lines = (tmp_path / "arduino" / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    needed = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures"}
    assert needed <= set(properties) and properties["includes"] == "gait.h"
    library = json.loads((tmp_path / "platformio" / "library.json").read_text())
    assert library["name"] == "gait" and library["version"] == properties["version"]
    module = yaml.safe_load((tmp_path / "zephyr" / "zephyr" / "module.yml").read_text())
    assert module == {"name": "gait", "build": {"cmake": ".", "kconfig": "Kconfig"}}
    assert "config GAIT" in (tmp_path / "zephyr" / "Kconfig").read_text()
    component = yaml.safe_load((tmp_path / "esp-idf" / "idf_component.yml").read_text())
    assert component["version"] == properties["version"]
    main = (tmp_path / "esp-idf" / "examples" / "sensor" / "main" / "CMakeLists.txt").read_text()
    assert "REQUIRES esp-idf " in main  # a component has the name of its folder


def test_packages_that_do_not_exist_or_do_not_fit_are_refused(model, tmp_path):
    with pytest.raises(ValueError, match="package"):
        export(model, tmp_path, package="avr")
    with pytest.raises(ValueError, match="package requires format c"):
        export(model, tmp_path, format="onnx", package="arduino")
    assert not list(tmp_path.iterdir())


def test_a_package_gives_the_predictions_of_the_model(model, tmp_path):
    from chronode.export._verify import irregular, predictions

    done = export(model, tmp_path, package="zephyr")
    series = irregular(done.graph.deployment, 2, 20)
    answers = done.runner().run(done.graph, series)
    assert abs(answers - predictions(done.graph.deployment, series)).max() < 1e-5
