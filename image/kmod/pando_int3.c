// SPDX-License-Identifier: MIT
/*
 * pando_int3.c - a breakpoint that is no longer there is no reason to die
 *
 * The kernel changes its own code while it runs (static keys, tracepoints, BPF): it puts an int3
 * over the first byte, writes the rest, writes the first byte, and after each step every CPU must
 * have answered an interrupt. An emulated CPU reads code when it translates it. Of QEMU 7.2, with
 * a thread for each CPU, one that read the int3 just before it was taken away keeps the translation
 * of it: the write that should have thrown it out came before it was listed. Whoever comes by runs
 * into a breakpoint that nobody set, and the kernel panics ("int3 ... Fatal exception in
 * interrupt").
 *
 * Told of such a trap, this module looks at the byte in memory. If it is no int3, it is written
 * once more, unchanged: that makes QEMU forget its translation. Then the instruction is tried
 * again. The other steps need no help: a translation that missed one of them is thrown out by the
 * next. A real CPU never has such a trap, but a guest of KVM inside an emulated machine does, and
 * does not know where it is: so every guest loads this. docs/decisions/0008.
 */
#include <asm/special_insns.h>
#include <linux/kdebug.h>
#include <linux/module.h>
#include <linux/ptrace.h>

#define INT3 0xcc

static unsigned int healed; /* traps answered; several CPUs at once may count one */
module_param(healed, uint, 0444);

static void set_cr0(unsigned long v)
{
	asm volatile("mov %0, %%cr0" : : "r"(v) : "memory"); /* the kernel's own keeps WP set */
}

/* Interrupts are off. The write is atomic and changes no bit: another CPU may be patching here. */
static void rewrite(u8 *p)
{
	unsigned long cr0 = native_read_cr0();

	set_cr0(cr0 & ~X86_CR0_WP);
	asm volatile("lock orb $0, %0" : "+m"(*p));
	set_cr0(cr0);
}

static int on_die(struct notifier_block *nb, unsigned long what, void *data)
{
	struct pt_regs *regs = ((struct die_args *)data)->regs;
	u8 *p = (u8 *)(regs->ip - 1);

	if (what != DIE_INT3 || user_mode(regs) || READ_ONCE(*p) == INT3)
		return NOTIFY_DONE;
	rewrite(p);
	regs->ip = (unsigned long)p;
	healed++;
	return NOTIFY_STOP;
}

static struct notifier_block nb = { .notifier_call = on_die, .priority = INT_MAX };

static int __init pando_int3_init(void)
{
	return register_die_notifier(&nb);
}

static void __exit pando_int3_exit(void)
{
	unregister_die_notifier(&nb);
}

module_init(pando_int3_init);
module_exit(pando_int3_exit);
MODULE_DESCRIPTION("survives breakpoints that an emulator remembers");
MODULE_LICENSE("Dual MIT/GPL");
