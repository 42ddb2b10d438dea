// SPDX-License-Identifier: MIT
/* The policy and the CPUs for programs with an I/O path of their own: aps_policy.h. */
#include <errno.h>
#include <stdlib.h>
#include "cpu.h"
#include "decide.h"
#include "options.h"

struct aps_cpus {
	struct aps_cpu cpu;
	uint64_t sample_ns;
	uint64_t sampled_ns;
	bool sampled;
};

int aps_policy_create(struct aps_policy **out, const struct aps_options *options)
{
	struct aps_options own;
	struct aps_policy *policy;
	int err = aps_options_take(&own, options);

	if (err)
		return err;
	if (own.mode == APS_RING_HYBRID)
		return -EINVAL;
	policy = malloc(sizeof(*policy));
	if (!policy)
		return -ENOMEM;
	aps_policy_init(policy, &own);
	policy->opts.root = NULL; /* the caller's, and not used */
	*out = policy;
	return 0;
}

void aps_policy_free(struct aps_policy *policy)
{
	free(policy);
}

static bool is_transfer(uint32_t op)
{
	return op == APS_OP_READ || op == APS_OP_WRITE;
}

static enum aps_direction direction(uint32_t op)
{
	return op == APS_OP_WRITE ? APS_DIR_WRITE : APS_DIR_READ;
}

/* The I/O that was sent first; NULL if one is neither read nor write. */
static const struct aps_io *oldest_of(const struct aps_io *ios, unsigned int nr)
{
	const struct aps_io *oldest = ios;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (!is_transfer(ios[i].op))
			return NULL;
		if (ios[i].submit_ns < oldest->submit_ns)
			oldest = &ios[i];
	}
	return oldest;
}

/*
 * How long to poll before the CPUs are looked at again: until the I/O is an outlier, of
 * which nothing is known, and no longer than one reading of utilisation holds.
 */
static uint64_t patience_ns(const struct aps_policy *policy, uint64_t mean_ns)
{
	uint64_t sample_ns = policy->opts.sample_ns;

	if (!mean_ns || mean_ns > sample_ns / APS_OUTLIER_MEANS)
		return sample_ns;
	return APS_OUTLIER_MEANS * mean_ns;
}

int aps_policy_plan(const struct aps_policy *policy, const struct aps_io *ios, unsigned int nr,
		    const struct aps_load *load, uint64_t now_ns, struct aps_plan *plan)
{
	static const struct aps_load idle;
	const struct aps_io *io = nr ? oldest_of(ios, nr) : NULL;
	enum aps_direction dir;
	struct aps_choice c;
	unsigned int size;
	uint64_t from_ns;

	if (!io || (!load && policy->opts.mode == APS_ADAPTIVE))
		return -EINVAL;
	if (!load)
		load = &idle;
	dir = direction(io->op);
	size = aps_size_class(io->bytes);
	c = aps_policy_choose(policy, dir, size, load->util_ppm, load->need_ppm);
	*plan = (struct aps_plan){
		.kind = c.kind, .margin_ppm = c.margin_ppm, .nap_ns = c.nap_ns, .sleep_ns = c.sleep_ns,
		.submit_ns = io->submit_ns,
	};
	if (c.kind == APS_WAIT_INTERRUPT)
		return 0;
	from_ns = now_ns;
	if (c.sleep_ns && io->submit_ns + c.sleep_ns >= now_ns + policy->opts.min_sleep_ns)
		from_ns = plan->sleep_until_ns = io->submit_ns + c.sleep_ns;
	plan->poll_until_ns = from_ns + patience_ns(policy, aps_policy_mean_ns(policy, dir, size));
	return 0;
}

int aps_policy_done(struct aps_policy *policy, const struct aps_io *io,
		    const struct aps_plan *plan, int overslept, uint64_t found_ns,
		    const struct aps_load *load)
{
	unsigned int size = aps_size_class(io->bytes);
	uint64_t ns = found_ns - io->submit_ns;
	bool known = true;

	if (!is_transfer(io->op) || found_ns < io->submit_ns)
		return -EINVAL;
	overslept = overslept && plan && plan->sleep_until_ns;
	if (overslept) {
		/* It took at most as long as the sleep. */
		known = found_ns <= plan->sleep_until_ns + (plan->sleep_ns >> APS_LATE_SHIFT);
		if (ns > plan->sleep_ns)
			ns = plan->sleep_ns;
	}
	if (known)
		aps_policy_time(policy, direction(io->op), size, ns);
	if (plan && plan->kind != APS_WAIT_DEEP && plan->submit_ns == io->submit_ns)
		aps_policy_slept(policy, direction(io->op), size, overslept);
	if (load && policy->opts.mode == APS_ADAPTIVE)
		aps_policy_load(policy, load->util_ppm);
	return 0;
}

uint64_t aps_policy_expected_ns(const struct aps_policy *policy, enum aps_op op, uint64_t bytes)
{
	if (!is_transfer(op))
		return 0;
	return aps_policy_mean_ns(policy, direction(op), aps_size_class(bytes));
}

int aps_cpus_open(struct aps_cpus **out, const struct aps_options *options)
{
	struct aps_options own;
	struct aps_cpus *cpus;
	int err = aps_options_take(&own, options);

	if (err)
		return err;
	cpus = calloc(1, sizeof(*cpus));
	if (!cpus)
		return -ENOMEM;
	err = aps_cpu_open(&cpus->cpu, own.root);
	if (err) {
		free(cpus);
		return err;
	}
	cpus->sample_ns = own.sample_ns;
	*out = cpus;
	return 0;
}

void aps_cpus_close(struct aps_cpus *cpus)
{
	if (!cpus)
		return;
	aps_cpu_close(&cpus->cpu);
	free(cpus);
}

int aps_cpus_load(struct aps_cpus *cpus, uint64_t now_ns, unsigned int nr_waiting,
		  struct aps_load *load)
{
	int err = 0;

	if (!nr_waiting)
		return -EINVAL;
	if (!cpus->sampled || now_ns - cpus->sampled_ns >= cpus->sample_ns) {
		cpus->sampled = true;
		cpus->sampled_ns = now_ns;
		err = aps_cpu_read(&cpus->cpu, now_ns, aps_process_ns(), nr_waiting);
	}
	*load = (struct aps_load){
		.util_ppm = cpus->cpu.load.util_ppm, .need_ppm = aps_cpu_need_ppm(&cpus->cpu, nr_waiting),
	};
	return err;
}
