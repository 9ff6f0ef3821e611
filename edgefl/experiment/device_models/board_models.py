"""Devices that come with the package: a table of models, each number with its source. We measured no number in the
table.

Training times are for one core. They follow from instructions that we have counted under an emulator and from an
assumed number of instructions per cycle (bench/README.md, "Counted on ARM"). We counted the instructions of FedSPU's
CIFAR CNN, whose step at a batch of 16 has 22.3 million multiply-adds and takes 13.03 million instructions. "As quoted"
marks figures that we know from other work which cites the source, and have not read in the source itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from edgefl.experiment.device_models.device_profile import Profile
from edgefl.learning.memory.board_specs import BOARDS as SOLD
from edgefl.learning.memory.board_specs import MIB


class BoardProfile(NamedTuple):
    """A profile, and the source of every number that is not 0, by the name of the number in the profile."""

    profile: Profile
    source: Mapping[str, str]


BROADBAND = "FCC, 2024 Broadband Deployment Report: fixed service has 100 Mbit/s down"
BROADBAND_UP = "the same report: 20 Mbit/s up"
LTE = "Huang and others, A close examination of performance and power characteristics of 4G LTE networks, MobiSys 2012"
WIFI_DOWN = f"{LTE}, table 4, as quoted: Wi-Fi of a phone, 137.01 mW for each Mbit/s; its base is left out"
WIFI_UP = f"{LTE}, table 4, as quoted: 283.17 mW for each Mbit/s"
ESP = "Espressif, ESP32-S3 data sheet"

BOARDS = {
    "mcu": BoardProfile(
        Profile(
            macs_per_second=142e6,
            down_bytes_per_second=2.5e6,
            up_bytes_per_second=2.5e6,
            joules_per_mac=9.2e-10,
            joules_per_down_byte=7.3e-8,
            joules_per_up_byte=3.3e-7,
            idle_watts=0.109,
            memory_bytes=8 * MIB,
            title="microcontroller class: ESP32-S3, 8 MB, Wi-Fi",
        ),
        {
            "macs_per_second": "Espressif, ESP-DSP benchmarks: dsps_dotprod_f32 of 256 takes 432 cycles; 240 MHz, one "
            "core, data on the chip: from external memory it is slower. edgefl does not run there",
            "down_bytes_per_second": "Espressif, ESP-IDF guide, Wi-Fi performance of ESP32-S3: TCP 20 Mbit/s in a lab",
            "up_bytes_per_second": "the same table: TCP 20 Mbit/s",
            "joules_per_mac": f"{ESP}, table 5-9: 72.4 mA with one core at 128-bit loads, 32.9 idle, at 3.3 V",
            "joules_per_down_byte": f"{ESP}, table 5-7: 88 mA receiving, less 32.9 idle, at 3.3 V and 20 Mbit/s",
            "joules_per_up_byte": f"{ESP}, table 5-7: 283 mA sending (802.11n, MCS7), less 32.9 idle, likewise",
            "idle_watts": f"{ESP}, table 5-9: 32.9 mA waiting at 240 MHz, at 3.3 V",
            "memory_bytes": f"{ESP}: 8 MB of PSRAM in the package of ESP32-S3R8",
        },
    ),
    "phone-lte": BoardProfile(
        Profile(
            macs_per_second=9.1e9,
            down_bytes_per_second=1.6e6,
            up_bytes_per_second=7.0e5,
            joules_per_mac=2.4e-10,
            joules_per_down_byte=1.22e-6,
            joules_per_up_byte=5.33e-6,
            latency_s=0.33,
            joules_per_message=12.3,
            memory_bytes=1024 * MIB,
            title="phone on LTE: one Cortex-A76 at 2.4 GHz",
        ),
        {
            "macs_per_second": "ours, counted under an emulator, with an assumed 2.2 instructions a cycle at 2.4 GHz",
            "down_bytes_per_second": f"{LTE}: median 12.74 Mbit/s, 13 in its abstract",
            "up_bytes_per_second": f"{LTE}: median 5.64 Mbit/s, 6 in its abstract",
            "joules_per_mac": "AnandTech, Mate 20 review, 2018, as quoted: some 2.1 W of the phone above idle with one "
            "Cortex-A76 at work (SPECint2006, 2.6 GHz)",
            "joules_per_down_byte": f"{LTE}, table 4, as quoted: 51.97 mW for each Mbit/s and 1288 mW, at 12.74 Mbit/s",
            "joules_per_up_byte": f"{LTE}, table 4, as quoted: 438.39 mW for each Mbit/s and 1288 mW, at 5.64 Mbit/s",
            "latency_s": f"{LTE}, as quoted: .26 s to wake the radio and a round trip of .07 s",
            "joules_per_message": f"{LTE}, as quoted: a tail of 11.6 s at 1060 mW. A transfer within it would pay once",
            "memory_bytes": "our assumption: what an application may take",
        },
    ),
    "pi4": BoardProfile(
        Profile(
            macs_per_second=3.9e9,
            down_bytes_per_second=12.5e6,
            up_bytes_per_second=2.5e6,
            joules_per_mac=2.4e-10,
            joules_per_down_byte=1.1e-6,
            joules_per_up_byte=2.3e-6,
            idle_watts=2.7,
            memory_bytes=SOLD["pi4"].memory[0],
            title="Raspberry Pi 4, Wi-Fi: one Cortex-A72 at 1.5 GHz",
        ),
        {
            "macs_per_second": "ours, counted under an emulator, with an assumed 1.5 instructions a cycle at 1.5 GHz",
            "down_bytes_per_second": BROADBAND,
            "up_bytes_per_second": BROADBAND_UP,
            "joules_per_mac": "Pi Dramble, power consumption benchmarks, as quoted: 6.4 W with four cores at work, 2.7 "
            "idle; a quarter of the difference",
            "joules_per_down_byte": WIFI_DOWN,
            "joules_per_up_byte": WIFI_UP,
            "idle_watts": "Pi Dramble, as quoted: 2.7 W idle",
            "memory_bytes": SOLD["pi4"].source,
        },
    ),
    "orin-nano": BoardProfile(
        Profile(
            macs_per_second=5.7e9,
            down_bytes_per_second=12.5e6,
            up_bytes_per_second=2.5e6,
            joules_per_mac=3.8e-10,
            joules_per_down_byte=1.1e-6,
            joules_per_up_byte=2.3e-6,
            idle_watts=2.2,
            memory_bytes=SOLD["orin-nano"].memory[0],
            title="Jetson Orin Nano, Wi-Fi: one Cortex-A78AE at 1.5 GHz, its GPU unused",
        ),
        {
            "macs_per_second": "ours, counted under an emulator, with an assumed 2.2 instructions a cycle at 1.5 GHz",
            "down_bytes_per_second": BROADBAND,
            "up_bytes_per_second": BROADBAND_UP,
            "joules_per_mac": "an upper bound: all that NVIDIA's mode of 15 W leaves above idle, a sixth for each core",
            "joules_per_down_byte": WIFI_DOWN,
            "joules_per_up_byte": WIFI_UP,
            "idle_watts": "NVIDIA developer forum, thread 348662: VDD_IN 2180 mW, the least that its user could reach",
            "memory_bytes": SOLD["orin-nano"].source,
        },
    ),
}
MIXED = ("mcu", "phone-lte", "pi4", "orin-nano")  # equal shares of the clients, beginning with the weakest device
