/* A qemu-user plugin that counts executed instructions, and prints the count wherever the program asks for it.
 *
 * The program asks by a system call that fails and that nothing else makes: sched_get_priority_min(MARK), 125 or 126 on
 * aarch64. It counts a block of instructions as it is entered. One counter: right for programs of one busy thread.
 * No part of edgefl's library. qemu's header is not packaged by Debian; the few declarations here are version 1 of its
 * documented plugin interface (qemu 6 to 8.1).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t plugin_id;
struct block;
struct machine;
enum inline_operation { ADD_U64 };
typedef void (*on_block)(plugin_id, struct block*);
typedef void (*on_call)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_block);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, on_call);
void qemu_plugin_register_vcpu_tb_exec_inline(struct block*, enum inline_operation, void*, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct block*);

#define VISIBLE __attribute__((visibility("default")))
enum { MARK = 42424242, FIRST_CALL = 125, LAST_CALL = 126 };

VISIBLE int qemu_plugin_version = 1;

static uint64_t executed;
static FILE* counts;

static void count_block(plugin_id id, struct block* block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &executed, qemu_plugin_tb_n_insns(block));
}

static void report(plugin_id id, unsigned cpu, int64_t number, uint64_t argument, uint64_t b, uint64_t c, uint64_t d,
                   uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)cpu, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number < FIRST_CALL || number > LAST_CALL || argument != MARK) return;
    fprintf(counts, "%llu\n", (unsigned long long)executed);
    fflush(counts);
}

/* The one argument is the file that the counts go to: out=FILE. */
VISIBLE int qemu_plugin_install(plugin_id id, const struct machine* machine, int count, char** arguments) {
    (void)machine;
    if (count != 1) return 1;
    const char* path = arguments[0];
    while (*path && *path++ != '=') {}
    counts = fopen(path, "w");
    if (!counts) return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
    qemu_plugin_register_vcpu_syscall_cb(id, report);
    return 0;
}
