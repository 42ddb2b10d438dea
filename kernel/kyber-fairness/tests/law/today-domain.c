// SPDX-License-Identifier: GPL-2.0-only
/* Today's law in the simulation: what domain.c does of it; see today.c. */
#include "today.h"

#define TODAY_SPREAD_NS		(5ULL * NSEC_PER_SEC)
#define TODAY_UNLOADED_PERMILLE	20
#define TODAY_UNLOADED_GROWTH	32
#define TODAY_LARGE_SECTS	512
#define TODAY_LARGE_INSIDE	2
#define TODAY_LOOK_REQUESTS	1000
#define TODAY_LOOK_NS_MAX	NSEC_PER_SEC
#define TODAY_INSIDE_PCT	150

const u32 today_depth_max[LAW_NR_DIRS] = { 256, 128 };

static u32 today_tokens_used(const struct today_domain *kd, u32 below)
{
	u32 i, nr = 0;

	for (i = 0; i < 4 && 64 * i < below; i++) {
		u64 bits = kd->tokens[i];

		if (below - 64 * i < 64)
			bits &= BIT_ULL(below - 64 * i) - 1;
		nr += hweight64(bits);
	}
	return nr;
}

int today_get_token(struct today_domain *kd)
{
	u32 i;

	for (i = 0; i < 4 && 64 * i < kd->share_depth; i++) {
		u32 bit;

		if (!~kd->tokens[i])
			continue;
		bit = 64 * i + __ffs64(~kd->tokens[i]);
		if (bit >= kd->share_depth)
			return -1;
		kd->tokens[i] |= BIT_ULL(bit % 64);
		return bit;
	}
	return -1;
}

static void today_find_unloaded(struct today_domain *kd, bool forget)
{
	u64 most_ns = kd->unloaded_ns ?: U64_MAX;
	u32 bucket, rank = 0;

	if (forget && kd->unloaded_ns)
		most_ns += most_ns / TODAY_UNLOADED_GROWTH;
	for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++)
		rank += kd->spread[0][bucket] + kd->spread[1][bucket];
	rank = DIV_ROUND_UP(rank * (u64)TODAY_UNLOADED_PERMILLE, 1000);
	if (!rank)
		return;
	for (bucket = 0; bucket < LAT_NR_BUCKETS - 1; bucket++) {
		u32 nr = kd->spread[0][bucket] + kd->spread[1][bucket];

		if (nr >= rank)
			break;
		rank -= nr;
	}
	kd->unloaded_ns = min(lat_bucket_ns(bucket), most_ns);
}

static u32 today_nr_inside(const struct today *kq)
{
	u32 id, inside = 0;

	for (id = 0; id < LAW_NR_DIRS; id++)
		inside += today_tokens_used(&kq->domain[id], kq->domain[id].share_depth);
	return inside;
}

static bool today_tokens_are_out(const struct today *kq)
{
	u32 id;

	for (id = 0; id < LAW_NR_DIRS; id++) {
		const struct today_domain *kd = &kq->domain[id];
		u32 depth = kd->share_depth;

		if (today_tokens_used(kd, depth) >= depth - depth / 8)
			return true;
	}
	return false;
}

static void today_look_anew(struct today *kq)
{
	kq->look_nr_done = 0;
	kq->look_elapsed_ns = 0;
	kq->look_work = 0;
}

static bool today_look_is_long(struct today *kq, u64 nr_done, u64 elapsed_ns, u64 *rate)
{
	bool is_long;

	kq->look_nr_done += nr_done;
	kq->look_elapsed_ns += elapsed_ns;
	kq->look_work += *rate * elapsed_ns;
	is_long = kq->look_nr_done >= TODAY_LOOK_REQUESTS;
	*rate = div64_u64(kq->look_work, kq->look_elapsed_ns);
	if (is_long || kq->look_elapsed_ns >= TODAY_LOOK_NS_MAX)
		today_look_anew(kq);
	return is_long;
}

static u64 today_per_second(u64 nr_done, u64 elapsed_ns)
{
	return div64_u64(nr_done * NSEC_PER_SEC, elapsed_ns);
}

static void today_look_at_rate(struct today *kq, u64 nr_done, u64 elapsed_ns, bool is_shared)
{
	u64 reads = kq->domain[0].nr_done;
	struct kf_inside_trial *it = &kq->inside_trial;
	u64 most = it->most, inside = today_nr_inside(kq);
	u64 rate;

	rate = kf_mix_rate(&kq->mix, today_per_second(reads, elapsed_ns),
			   today_per_second(nr_done - reads, elapsed_ns),
			   !it->step && !it->began);
	if (!it->step)
		kf_hold_try(&kq->hold_trial, rate);
	if (!is_shared) {
		kf_inside_forget(it, rate);
		return;
	}
	if (kf_inside_settles(it)) {
		today_look_anew(kq);
		return;
	}
	if (!it->step && most && !today_tokens_are_out(kq))
		return;
	if (!today_look_is_long(kq, nr_done, elapsed_ns, &rate))
		return;
	kf_inside_try(it, inside, kq->inside_least, rate);
}

static u64 today_inside_of(const struct today *kq, u32 id)
{
	u64 most = kq->inside_trial.most;

	if (!most || !kf_mix_is_busy_with(&kq->mix, id))
		return kq->inside;
	return min(kq->inside, most);
}

static u64 today_inside_large(const struct today_domain *kd, u64 least)
{
	if (kd->sects_done < kd->nr_done * TODAY_LARGE_SECTS)
		return U32_MAX;
	return max_t(u64, least, TODAY_INSIDE_MIN) * TODAY_LARGE_INSIDE;
}

/* The second half of kf_limit_inside(): each domain's tokens. */
static void today_set_tokens(struct today *kq, const u64 *least_of, u64 nr_done, bool is_shared)
{
	u32 id;

	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];
		u64 depth = div64_u64(today_inside_of(kq, id) * kd->nr_done,
				      max_t(u64, nr_done, 1));

		if (is_shared)
			depth = min(depth, today_inside_large(kd, least_of[id]));
		if (!kd->nr_done)
			depth = today_tokens_used(kd, kd->share_depth) ?
				kd->share_depth : U32_MAX;
		kd->share_depth = clamp_t(u64, depth, TODAY_INSIDE_MIN / 4,
					  today_depth_max[id]);
		kd->nr_done = 0;
		kd->sects_done = 0;
	}
}

static void today_limit_inside(struct today *kq)
{
	u64 now_ns = today_now(kq);
	u64 elapsed_ns = max_t(u64, now_ns - kq->inside_start_ns, 1);
	u64 least = 0, nr_done = 0, unloaded_ns = 0, inside;
	u64 least_of[LAW_NR_DIRS] = {};
	bool forget = now_ns - kq->spread_start_ns >= TODAY_SPREAD_NS;
	bool was_idle = elapsed_ns > 3 * TODAY_PERIOD_NS && !kq->nr_left_inside;
	bool is_shared = today_groups_share(kq, now_ns);
	u32 id;

	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];

		nr_done += kd->nr_done;
		if (!kd->nr_done)
			continue;
		today_find_unloaded(kd, forget);
		least_of[id] = kf_inside_least(kd->nr_done, elapsed_ns, kd->unloaded_ns,
					       TODAY_INSIDE_PCT);
		least += least_of[id];
		if (!unloaded_ns || (kd->unloaded_ns && kd->unloaded_ns < unloaded_ns))
			unloaded_ns = kd->unloaded_ns;
	}
	if (nr_done)
		kq->unloaded_ns = unloaded_ns;
	least = max_t(u64, least, TODAY_INSIDE_MIN);
	kq->inside_least = least;
	if (was_idle)
		kf_inside_forget(&kq->inside_trial, today_per_second(nr_done, elapsed_ns));
	else if (nr_done)
		today_look_at_rate(kq, nr_done, elapsed_ns, is_shared);
	inside = today_groups_inside(kq, kq->inside, least);
	if (kq->inside_is_new)
		inside = max(inside, kq->inside);
	if (was_idle || inside > today_depth_max[0])
		inside = U32_MAX;
	kq->inside_is_new = inside < kq->inside;
	kq->inside = inside;

	today_set_tokens(kq, least_of, nr_done, is_shared);
	kq->inside_start_ns = now_ns;
	kq->nr_left_inside = today_nr_inside(kq);
	if (!forget)
		return;
	kq->spread_start_ns = now_ns;
	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];

		memcpy(kd->spread[1], kd->spread[0], sizeof(kd->spread[1]));
		memset(kd->spread[0], 0, sizeof(kd->spread[0]));
	}
}

void today_work(struct today *kq)
{
	u32 id, bucket;

	kq->work_pending = false;
	for (id = 0; id < LAW_NR_DIRS; id++) {
		struct today_domain *kd = &kq->domain[id];

		for (bucket = 0; bucket < LAT_NR_BUCKETS; bucket++) {
			kd->spread[0][bucket] += kd->done_spread[bucket];
			kd->nr_done += kd->done_spread[bucket];
		}
		memset(kd->done_spread, 0, sizeof(kd->done_spread));
	}
	today_limit_inside(kq);
}
