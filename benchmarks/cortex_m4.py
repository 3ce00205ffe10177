"""Exported C99 on an emulated Cortex-M4: built by arm-none-eabi-gcc, run by qemu.

On Debian: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")
TARGET = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]
STEPS = 100
# The board: qemu counts one instruction as one nanosecond of its time, and SysTick counts its clock of 25 MHz.
MACHINE = ["-machine", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"]
NANOSECONDS = 40
PAINT = 0x5A5A5A5A

LINK = """
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 4M  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 4M }
ENTRY(reset)
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > FLASH
  .ARM.exidx : { *(.ARM.exidx*) } > FLASH
  .data : { *(.data*) } > RAM
  .bss : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; } > RAM
  . = ALIGN(8);
  end = .; _end = .; __end__ = .;
  __stack = ORIGIN(RAM) + LENGTH(RAM);
}
"""

START = """
extern char __stack;
void run(void);
void reset(void);
void __attribute__((naked)) reset(void)
{
    /* switches the floating-point unit on */
    __asm volatile("ldr r0, =0xE000ED88\\n ldr r1, [r0]\\n orr r1, r1, #0xF00000\\n str r1, [r0]");
    __asm volatile("dsb\\n isb\\n b run");
}
__attribute__((section(".vectors"), used)) static const void *const vectors[2] = {&__stack, (const void *)reset};
"""

# Debuggers' calls, which qemu answers: 4 prints a text, 0x18 ends the program.
CALL = """
static void call(int number, const void *argument)
{
    register int r0 __asm("r0") = number;
    register const void *r1 __asm("r1") = argument;
    __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}
"""

CHECK = """
int main(void);
int printf(const char *format, ...)
{
    call(4, format);
    return 0;
}

void run(void)
{
    call(0x18, (const void *)(main() ? 0x20023 : 0x20026));
}
"""

MEASURE = """
#include "chronode_model.h"

#define SYSTICK ((volatile unsigned int *)0xE000E010)

static void say(unsigned int number)
{
    char text[12];
    int i = 11;
    text[i] = 0;
    text[--i] = '\\n';
    do {
        text[--i] = (char)('0' + number % 10u);
        number /= 10u;
    } while (number);
    call(4, text + i);
}

void run(void);
void run(void)
{
    static chronode_model_state state;
    static float x[CHRONODE_MODEL_INPUTS], y[CHRONODE_MODEL_OUTPUTS];
    static unsigned char observed[CHRONODE_MODEL_INPUTS];
    volatile unsigned int *deep = (volatile unsigned int *)__builtin_frame_address(0) - 16384;
    unsigned int used = 0, before, ticks;
    chronode_model_init(&state);
    for (int i = 0; i < CHRONODE_MODEL_INPUTS; ++i) {
        observed[i] = 1;
    }
    for (int i = 0; i < 16000; ++i) {
        deep[i] = PAINTu;
    }
    SYSTICK[1] = 0xFFFFFFu;
    SYSTICK[2] = 0;
    SYSTICK[0] = 5;
    before = SYSTICK[2];
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < CHRONODE_MODEL_INPUTS; ++i) {
            x[i] = (float)((step * 7 + i * 3) % 11) * 0.1f;
        }
        if (chronode_model_step(&state, x, observed, 1.0f, y)) {
            say(0);
        }
    }
    ticks = (before - SYSTICK[2]) & 0xFFFFFFu;
    while (used < 16000 && deep[used] == PAINTu) {
        ++used;
    }
    say(ticks);
    say((16384u - used) * 4u);
    call(0x18, (const void *)0x20026);
}
"""


@dataclass(frozen=True)
class Measured:
    """Cost of a step on the device.

    Attributes:
        flash: bytes of code and constants of the whole program, mathematics and start-up included.
        ram: bytes of state, of the stack of a step, and of the buffers for x and y.
        instructions: per step.
    """

    flash: int
    ram: int
    instructions: int


def missing_tools() -> list[str]:
    """The tools that are not installed."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def check(folder: Path, work: Path) -> None:
    """Runs check.c of an exported folder on the device; an error says that it fails."""
    (work / "check_start.c").write_text(CALL + CHECK)
    _run(_build(work, folder, [folder / "check.c", work / "check_start.c", "-fno-builtin"]))


def measure(folder: Path, work: Path) -> Measured:
    """Counts flash, RAM and instructions of an exported folder."""
    source = MEASURE.replace("PAINTu", f"0x{PAINT:x}u").replace("STEPS", str(STEPS))
    (work / "measure.c").write_text(CALL + source)
    elf = _build(work, folder, [work / "measure.c"])
    ticks, stack = map(int, _run(elf).split())
    sizes = _call(["arm-none-eabi-size", elf])
    text, data, bss = map(int, re.findall(r"\d+", sizes.splitlines()[1])[:3])
    return Measured(text + data, data + bss + stack, ticks * NANOSECONDS // STEPS)


def _build(work: Path, folder: Path, sources: list[object]) -> Path:
    (work / "link.ld").write_text(LINK)
    (work / "start.c").write_text(START)
    model, elf = work / "model.o", work / "program.elf"
    common = ["arm-none-eabi-gcc", *TARGET, "-O2", "-ffunction-sections", "-fdata-sections", f"-I{folder}"]
    _call([*common, *STRICT, "-c", folder / "chronode_model.c", "-o", model])
    link = ["-T", work / "link.ld", "-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections", "-o", elf, "-lm"]
    _call([*common, model, work / "start.c", *sources, *link])
    return elf


def _run(elf: Path) -> str:
    count = ["-icount", "shift=0", "-semihosting-config", "enable=on,target=native", "-kernel", elf]
    return _call(["qemu-system-arm", *MACHINE, *count])


def _call(command: list[object]) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
