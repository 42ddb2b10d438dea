// SPDX-License-Identifier: MIT
/*
 * RocksDB through the plugin: rocksdb-test PLUGIN DIR. The databases are made in DIR and
 * removed. "-" is a plugin that is linked in. What one file system writes the other reads;
 * reads of every kind, size and place; threads that come and go; reads given up; processes
 * that are killed, that fork, and that may not use io_uring. Prints TAP.
 */
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <dirent.h>
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <aps.h>
#include "tap.h"

#ifdef __SANITIZE_THREAD__
#include <liburing.h>
#include <sanitizer/tsan_interface.h>

/* liburing maps and unmaps rings by system calls of its own, of which TSan hears nothing: a
 * thread's new ring may lie where another's was. */
static char ring_memory;

extern "C" {
int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring, struct io_uring_params *p);
int __real_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring, struct io_uring_params *p);
void __wrap_io_uring_queue_exit(struct io_uring *ring);
void __real_io_uring_queue_exit(struct io_uring *ring);

int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring, struct io_uring_params *p)
{
	int err = __real_io_uring_queue_init_params(entries, ring, p);

	__tsan_acquire(&ring_memory);
	return err;
}

void __wrap_io_uring_queue_exit(struct io_uring *ring)
{
	__tsan_release(&ring_memory);
	__real_io_uring_queue_exit(ring);
}
}
#endif

using namespace ROCKSDB_NAMESPACE;

extern "C" void aps_rocksdb_stats(struct aps_stats *stats, size_t bytes) __attribute__((weak));
static void (*get_stats)(struct aps_stats *stats, size_t bytes);

static std::string dir;
static const char *test_plugin;

/* A status, or a condition, without which a test says nothing. */
static void must(const Status &s, const char *what)
{
	if (s.ok())
		return;
	printf("# %s: %s\n", what, s.ToString().c_str());
	fflush(stdout);
	_exit(1);
}

#define EXPECT_OK(status)								\
	do {										\
		const Status status_ = (status);					\
		if (!status_.ok()) {							\
			printf("# %s:%d: %s\n", __FILE__, __LINE__, status_.ToString().c_str());	\
			tap_failed = true;						\
		}									\
	} while (0)

static struct aps_stats stats()
{
	struct aps_stats s;

	get_stats(&s, sizeof(s));
	return s;
}

/* "" is the default. */
static Env *env_of(const std::string &uri)
{
	static std::map<std::string, std::shared_ptr<Env>> guards;
	Env *env = Env::Default();

	if (!uri.empty() && !guards.count(uri))
		must(Env::CreateFromUri(ConfigOptions(), "", uri, &env, &guards[uri]), uri.c_str());
	return uri.empty() ? env : guards[uri].get();
}

static std::shared_ptr<FileSystem> fs_of(const std::string &uri)
{
	return env_of(uri)->GetFileSystem();
}

/* Little memory, so that tables are many and small, and reads are of the disk. */
static Options options_of(const std::string &uri)
{
	BlockBasedTableOptions table;
	Options o;

	table.no_block_cache = true;
	table.block_size = 1024;
	o.table_factory.reset(NewBlockBasedTableFactory(table));
	o.env = env_of(uri);
	o.create_if_missing = true;
	o.use_direct_reads = true;
	o.write_buffer_size = 64 << 10;
	o.target_file_size_base = 64 << 10;
	o.max_bytes_for_level_base = 256 << 10;
	o.level0_file_num_compaction_trigger = 2;
	o.compression = kNoCompression;
	o.max_background_jobs = 2;
	return o;
}

static std::unique_ptr<DB> open_db(const std::string &name, const Options &o)
{
	DB *db = nullptr;

	must(DB::Open(o, dir + "/" + name, &db), name.c_str());
	return std::unique_ptr<DB>(db);
}

static std::unique_ptr<DB> open_db(const std::string &name, const std::string &uri)
{
	return open_db(name, options_of(uri));
}

static void destroy(const std::string &name)
{
	must(DestroyDB(dir + "/" + name, Options()), "DestroyDB");
}

static std::string key_of(unsigned int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%08u", n);
	return text;
}

/* What a reader can check without knowing when it was written. */
static std::string value_of(unsigned int key, unsigned int version, size_t bytes)
{
	std::string v = key_of(key) + ":" + std::to_string(version) + ":";
	std::mt19937 random(key * 31 + version);

	while (v.size() < bytes)
		v += static_cast<char>('a' + random() % 26);
	return v;
}

static bool is_value(unsigned int key, const std::string &v)
{
	unsigned int k = 0, version = 0;

	return sscanf(v.c_str(), "%u:%u:", &k, &version) == 2 && k == key && v == value_of(key, version, v.size());
}

/* Puts, deletes and ranges of them, flushes and compactions, in the order that the seed has. */
static void work_on(DB *db, unsigned int seed, int nr, std::map<std::string, std::string> *model)
{
	std::mt19937 random(seed);

	for (int i = 0; i < nr; i++) {
		unsigned int key = random() % 3000;

		switch (random() % 16) {
		case 0:
		case 1:
			must(db->Delete(WriteOptions(), key_of(key)), "Delete");
			model->erase(key_of(key));
			break;
		case 2:
			must(db->DeleteRange(WriteOptions(), db->DefaultColumnFamily(), key_of(key), key_of(key + 5)), "DeleteRange");
			model->erase(model->lower_bound(key_of(key)), model->lower_bound(key_of(key + 5)));
			break;
		default:
			(*model)[key_of(key)] = value_of(key, static_cast<unsigned int>(i), 20 + random() % 3000);
			must(db->Put(WriteOptions(), key_of(key), (*model)[key_of(key)]), "Put");
		}
		if (i % (nr / 4) == nr / 8)
			must(db->Flush(FlushOptions()), "Flush");
	}
	must(db->CompactRange(CompactRangeOptions(), nullptr, nullptr), "CompactRange");
}

/* Every way to read finds what is in the model, and nothing else. */
static void expect_content(DB *db, const std::map<std::string, std::string> &model, bool async)
{
	std::vector<Slice> keys;
	std::vector<std::string> names;
	auto at = model.begin();
	ReadOptions read;
	int nr_wrong = 0;

	read.async_io = async;
	read.readahead_size = async ? 16 << 10 : 0;
	std::unique_ptr<Iterator> it(db->NewIterator(read));
	for (it->SeekToFirst(); it->Valid(); it->Next(), ++at)
		if (at == model.end() || it->key() != at->first || it->value() != at->second) {
			nr_wrong++;
			break;
		}
	EXPECT_OK(it->status());
	EXPECT(at == model.end());
	for (it->SeekToLast(); it->Valid() && at != model.begin(); it->Prev())
		nr_wrong += it->key() != (--at)->first || it->value() != at->second;
	EXPECT(at == model.begin() && !it->Valid());
	for (unsigned int n = 0; n < 3000; n += 7)
		names.push_back(key_of(n));
	keys.assign(names.begin(), names.end());
	std::vector<PinnableSlice> values(keys.size());
	std::vector<Status> statuses(keys.size());
	ReadOptions multi;
	multi.async_io = async;
	db->MultiGet(multi, db->DefaultColumnFamily(), keys.size(), keys.data(), values.data(), statuses.data());
	for (size_t i = 0; i < keys.size(); i++) {
		auto want = model.find(names[i]);
		std::string value;
		Status s = db->Get(ReadOptions(), names[i], &value);

		if (want == model.end())
			nr_wrong += !s.IsNotFound() || !statuses[i].IsNotFound();
		else
			nr_wrong += !s.ok() || value != want->second || !statuses[i].ok() || values[i] != want->second;
	}
	EXPECT_EQ(nr_wrong, 0);
	EXPECT_OK(db->VerifyChecksum());
}

static void the_same_content_with_either_file_system(void)
{
	static const char *const uris[] = { "aps://", "aps://interrupt", "aps://poll", "aps://hybrid" };

	for (unsigned int i = 0; i < 4; i++) {
		std::map<std::string, std::string> model, same;
		struct aps_stats before = stats();

		{
			auto a = open_db("a", uris[i]), b = open_db("b", "");

			work_on(a.get(), i, 1000, &model);
			work_on(b.get(), i, 1000, &same);
			expect_content(a.get(), model, false);
			expect_content(a.get(), model, true);
			expect_content(b.get(), model, false);
		}
		EXPECT(stats().nr_reads > before.nr_reads + 1000);
		/* Each reads, and goes on with, what the other wrote. */
		{
			auto a = open_db("a", ""), b = open_db("b", uris[i]);

			expect_content(a.get(), model, false);
			expect_content(b.get(), model, true);
			work_on(a.get(), 99, 200, &model);
			work_on(b.get(), 99, 200, &same);
			expect_content(b.get(), model, false);
		}
		EXPECT(model == same);
		EXPECT_EQ(stats().nr_errors, before.nr_errors);
		destroy("a");
		destroy("b");
	}
}

/* Memory as O_DIRECT wants it. */
struct Buffer {
	char *at = nullptr;

	explicit Buffer(size_t bytes)
	{
		if (posix_memalign(reinterpret_cast<void **>(&at), 4096, bytes ? bytes : 1))
			abort();
		memset(at, '?', bytes);
	}
	~Buffer() { free(at); }
};

constexpr size_t kBytes = 3 * 4096 * 100 + 1234;

static std::unique_ptr<FSRandomAccessFile> open_file(const std::string &uri, const std::string &name, bool direct)
{
	std::unique_ptr<FSRandomAccessFile> file;
	FileOptions o;

	o.use_direct_reads = direct;
	must(fs_of(uri)->NewRandomAccessFile(dir + "/" + name, o, &file, nullptr), name.c_str());
	return file;
}

static std::string make_file(const std::string &name)
{
	std::mt19937_64 random(7);
	std::string content;

	while (content.size() < kBytes)
		content += static_cast<char>(random());
	must(WriteStringToFile(Env::Default(), content, dir + "/" + name, true), name.c_str());
	return content;
}

static std::string part(const std::string &content, uint64_t offset, size_t bytes)
{
	return offset < content.size() ? content.substr(offset, bytes) : "";
}

static void reads_are_those_of_the_default_file_system(void)
{
	const std::string content = make_file("f");

	for (bool direct : { false, true }) {
		auto a = open_file("aps://", "f", direct), b = open_file("", "f", direct);
		char id_a[64], id_b[64];
		size_t n = a->GetUniqueId(id_a, sizeof(id_a));
		std::mt19937 random(3);
		struct aps_stats before = stats();

		EXPECT_EQ(a->use_direct_io(), direct);
		EXPECT_EQ(a->GetRequiredBufferAlignment(), b->GetRequiredBufferAlignment());
		EXPECT_EQ(n, b->GetUniqueId(id_b, sizeof(id_b)));
		EXPECT(n && !memcmp(id_a, id_b, n));
		EXPECT_EQ(a->GetUniqueId(id_a, 1), b->GetUniqueId(id_b, 1) ? 1 : a->GetUniqueId(id_a, 1));
		EXPECT_OK(a->InvalidateCache(0, 0));
		for (int i = 0; i < 300; i++) {
			uint64_t offset = random() % (kBytes + 3 * 4096) / 4096 * 4096;
			size_t bytes = (1 + random() % 40) * 4096;
			Buffer to(bytes);
			Slice got;

			EXPECT_OK(a->Read(offset, bytes, IOOptions(), &got, to.at, nullptr));
			EXPECT(got.ToString() == part(content, offset, bytes));
		}
		if (!direct)
			EXPECT_EQ(stats().nr_reads, before.nr_reads);
		else
			EXPECT(stats().nr_reads >= before.nr_reads + 250);
	}
	std::unique_ptr<FSRandomAccessFile> none;
	EXPECT(fs_of("aps://")->NewRandomAccessFile(dir + "/none", FileOptions(), &none, nullptr).IsPathNotFound());
}

static void one_multiread_takes_any_number(void)
{
	const std::string content = make_file("f");
	auto file = open_file("aps://", "f", true);

	for (size_t nr : { 0, 1, 2, 127, 128, 129, 1000 }) {
		std::vector<FSReadRequest> reqs(nr);
		Buffer to(nr * 4096);
		int nr_wrong = 0;

		for (size_t i = 0; i < nr; i++) {
			reqs[i].offset = i * 7 % 400 * 4096; /* some are behind the end */
			reqs[i].len = i % 50 == 49 ? 0 : 4096;
			reqs[i].scratch = to.at + i * 4096;
		}
		EXPECT_OK(file->MultiRead(reqs.data(), nr, IOOptions(), nullptr));
		for (size_t i = 0; i < nr; i++)
			nr_wrong += !reqs[i].status.ok() ||
				    reqs[i].result.ToString() != part(content, reqs[i].offset, reqs[i].len);
		EXPECT_EQ(nr_wrong, 0);
	}
}

/* RocksDB 7.8 has a fault with reads that are not done at once, so the plugin does them at once. */
constexpr bool kIsAsync = ROCKSDB_MAJOR >= 8;

struct Answer {
	int nr = 0;
	Status status;
	std::string bytes;
};

static void *read_async(FSRandomAccessFile *file, uint64_t offset, char *to, Answer *answer, IOHandleDeleter *del)
{
	void *handle = nullptr;
	FSReadRequest req;

	req.offset = offset;
	req.len = 4096;
	req.scratch = to;
	must(file->ReadAsync(req, IOOptions(), [](const FSReadRequest &r, void *arg) {
		Answer *a = static_cast<Answer *>(arg);

		a->nr++;
		a->status = r.status;
		a->bytes = r.status.ok() ? r.result.ToString() : "";
	}, answer, &handle, del, nullptr), "ReadAsync");
	return handle;
}

static void reads_that_are_not_waited_for(void)
{
	constexpr size_t kNr = 300; /* more than a ring takes at once */
	const std::string content = make_file("f");
	auto file = open_file("aps://", "f", true);

	for (int by_another_thread = 0; by_another_thread < 2; by_another_thread++) {
		std::vector<IOHandleDeleter> del(kNr);
		std::vector<Answer> answers(kNr);
		std::vector<void *> handles(kNr), odd, even;
		Buffer to(kNr * 4096), other(4096);
		Slice got;

		auto send = [&] {
			for (size_t i = 0; i < kNr; i++)
				handles[i] = read_async(file.get(), i * 4096, to.at + i * 4096, &answers[i], &del[i]);
		};
		if (by_another_thread)
			std::thread(send).join(); /* its ring outlives it */
		else
			send();
		for (const Answer &a : answers)
			EXPECT_EQ(a.nr, kIsAsync ? 0 : 1);
		/* Others go by. */
		EXPECT_OK(file->Read(4096, 4096, IOOptions(), &got, other.at, nullptr));
		EXPECT(got.ToString() == part(content, 4096, 4096));
		for (size_t i = 0; i < kNr; i++)
			(i % 2 ? odd : even).push_back(handles[i]);
		EXPECT_OK(fs_of("aps://")->Poll(even, even.size()));
		EXPECT_OK(fs_of("aps://")->Poll(even, even.size()));
		EXPECT_OK(fs_of("aps://")->AbortIO(odd));
		EXPECT_OK(fs_of("aps://")->AbortIO(handles));
		for (size_t i = 0; i < kNr; i++) {
			EXPECT_EQ(answers[i].nr, 1);
			bool is_aborted = i % 2 && kIsAsync;
			EXPECT(is_aborted ? answers[i].status.IsAborted() : answers[i].status.ok());
			EXPECT(is_aborted || answers[i].bytes == part(content, i * 4096, 4096));
			EXPECT_EQ(handles[i] != nullptr, kIsAsync);
			if (handles[i])
				del[i](handles[i]);
		}
	}
	/* A file that is not direct answers at once, and Poll() is told of no handle. */
	auto plain = open_file("aps://", "f", false);
	IOHandleDeleter del;
	Buffer to(4096);
	Answer answer;
	std::vector<void *> none = { read_async(plain.get(), 8192, to.at, &answer, &del) };
	EXPECT(!none[0]);
	EXPECT_EQ(answer.nr, 1);
	EXPECT_OK(fs_of("aps://")->Poll(none, 1));
	EXPECT_EQ(stats().nr_outstanding, 0);
}

/* Descriptors of deleted files, also those that only a ring's table has. */
static void a_closed_file_is_in_no_ring(void)
{
	for (int i = 0; i < 20; i++) {
		std::vector<std::unique_ptr<FSRandomAccessFile>> files;
		std::vector<std::thread> threads;
		std::atomic<int> nr_read{ 0 };
		std::atomic<bool> go_on{ false };

		make_file("f");
		for (int k = 0; k < 30; k++)
			files.push_back(open_file("aps://", "f", true));
		for (int t = 0; t < 4; t++)
			threads.emplace_back([&] {
				Buffer to(4096);
				Slice got;

				for (auto &f : files)
					EXPECT_OK(f->Read(0, 4096, IOOptions(), &got, to.at, nullptr));
				nr_read++;
				while (!go_on)
					usleep(100);
			});
		while (nr_read < 4)
			usleep(100);
		EXPECT_EQ(stats().nr_files, 4 * 30);
		if (i % 2) { /* the threads are there when the files are closed, or not */
			files.clear();
			EXPECT_EQ(stats().nr_files, 0);
		}
		go_on = true;
		for (auto &t : threads)
			t.join();
		files.clear();
		EXPECT_EQ(stats().nr_files, 0);
	}
}

static void eight_threads_read_while_others_write(void)
{
	constexpr unsigned int kKeys = 4000;
	auto db = open_db("t", "aps://");
	std::atomic<uint64_t> nr_wrong{ 0 }, nr_read{ 0 };
	std::atomic<bool> stop{ false };
	std::vector<std::thread> threads;

	for (unsigned int k = 0; k < kKeys; k++)
		must(db->Put(WriteOptions(), key_of(k), value_of(k, 0, 300)), "Put");
	for (unsigned int t = 0; t < 8; t++)
		threads.emplace_back([&, t] {
			std::mt19937 random(t);

			/* A life of a thread is short: its ring ends with it. */
			while (!stop) {
				std::thread([&] {
					for (int i = 0; i < 200 && !stop; i++, nr_read++) {
						unsigned int k = random() % kKeys;
						std::string value;

						if (i % 20 == 19) {
							ReadOptions read;
							read.async_io = i % 40 == 19;
							read.readahead_size = 8192;
							std::unique_ptr<Iterator> it(db->NewIterator(read));
							it->Seek(key_of(k));
							for (int n = 0; it->Valid() && n < 30; it->Next(), n++)
								nr_wrong += !is_value(k + static_cast<unsigned int>(n), it->value().ToString());
							nr_wrong += !it->status().ok();
						} else {
							nr_wrong += !db->Get(ReadOptions(), key_of(k), &value).ok() || !is_value(k, value);
						}
					}
				}).join();
			}
		});
	threads.emplace_back([&] {
		std::mt19937 random(77);

		for (unsigned int v = 1; !stop; v++) {
			unsigned int k = random() % kKeys;
			must(db->Put(WriteOptions(), key_of(k), value_of(k, v, 100 + random() % 600)), "Put");
			if (v % 2000 == 0)
				must(db->Flush(FlushOptions()), "Flush");
			if (v % 100 == 0)
				usleep(1000);
		}
	});
	sleep(3);
	stop = true;
	for (auto &t : threads)
		t.join();
	printf("# %" PRIu64 " reads of keys\n", nr_read.load());
	EXPECT_EQ(nr_wrong, 0);
	EXPECT(nr_read > 500);
	EXPECT_OK(db->VerifyChecksum());
	db.reset();
	EXPECT_EQ(stats().nr_files, 0);
	EXPECT_EQ(stats().nr_errors, 0);
	destroy("t");
}

/* A new program in the place of this child, as RocksDB's threads are in no child. */
[[noreturn]] static void become(const char *what, int argument)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", argument);
	setenv("ROCKSDB_TEST_IS", what, 1);
	execl("/proc/self/exe", "rocksdb-test", test_plugin, dir.c_str(), number, nullptr);
	_exit(127);
}

/* Wait for a child, which says by its exit status whether all was well. */
static void expect_child(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_killed_process_keeps_what_it_synced(void)
{
	for (int i = 0; i < 8; i++) {
		const char *uri = i % 3 ? "aps://" : "";
		int ends[2], status;
		unsigned int last = 0, n;

		fflush(stdout);
		if (pipe(ends))
			abort();
		pid_t pid = fork();
		if (!pid) {
			close(ends[0]);
			become("writer", ends[1]);
		}
		close(ends[1]);
		if (read(ends[0], &n, sizeof(n)) == sizeof(n))
			last = n; /* it writes */
		usleep(30000 + static_cast<useconds_t>(i) * 17000);
		kill(pid, SIGKILL);
		while (read(ends[0], &n, sizeof(n)) == sizeof(n))
			last = n;
		close(ends[0]);
		waitpid(pid, &status, 0);
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		EXPECT(last > 0);

		auto db = open_db("k", uri);
		int nr_wrong = 0;
		for (unsigned int k = 1; k <= last; k++) {
			std::string value;
			nr_wrong += !db->Get(ReadOptions(), key_of(k), &value).ok() || !is_value(k, value);
		}
		printf("# %u synced\n", last);
		EXPECT_EQ(nr_wrong, 0);
		EXPECT_OK(db->VerifyChecksum());
	}
	destroy("k");
}

/* Of the test above: put keys, and tell of each after it was synced, until killed. */
static void write_for_ever(int fd)
{
	auto db = open_db("k", "aps://");
	WriteOptions sync;

	sync.sync = true;
	for (unsigned int k = 1;; k++) {
		std::string value;

		must(db->Put(sync, key_of(k), value_of(k, 1, 2000)), "Put");
		must(db->Get(ReadOptions(), key_of(k / 2 + 1), &value), "Get");
		if (write(fd, &k, sizeof(k)) != sizeof(k))
			_exit(1);
	}
}

static void a_child_after_fork_reads_what_is_open(void)
{
	const std::string content = make_file("f");
	auto file = open_file("aps://", "f", true);
	Buffer to(4096);
	Slice got;

	EXPECT_OK(file->Read(0, 4096, IOOptions(), &got, to.at, nullptr));
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		bool ok = file->Read(8192, 4096, IOOptions(), &got, to.at, nullptr).ok() &&
			  got.ToString() == part(content, 8192, 4096);
		file.reset();
		_exit(!ok);
	}
	expect_child(pid);
	EXPECT_OK(file->Read(4096, 4096, IOOptions(), &got, to.at, nullptr));
	EXPECT(got.ToString() == part(content, 4096, 4096));
}

/*
 * Whatever lock of the plugin another thread has at that moment. None of an allocator, which
 * is not the plugin's, and which sanitizers do not release in a child.
 */
static void a_child_closes_what_other_threads_read(void)
{
	const std::string content = make_file("f");
	const std::string first = part(content, 0, 4096), second = part(content, 4096, 4096);
	std::atomic<bool> stop{ false };
	std::atomic<int> nr_wrong{ 0 };
	std::vector<std::thread> threads;
	auto file = open_file("aps://", "f", true);

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&] {
			Buffer to(4096);
			Slice got;

			while (!stop)
				nr_wrong += !file->Read(4096, 4096, IOOptions(), &got, to.at, nullptr).ok() ||
					    got != Slice(second);
		});
	Buffer to(4096);
	Slice got;

	fflush(stdout);
	for (int i = 0; i < 40; i++) {
		usleep(1000);
		pid_t pid = fork();
		if (!pid) {
			alarm(60);
			bool ok = file->Read(0, 4096, IOOptions(), &got, to.at, nullptr).ok() &&
				  got == Slice(first);
			file.reset();
			_exit(!ok);
		}
		expect_child(pid);
	}
	stop = true;
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(nr_wrong, 0);
}

/* As in a container of Docker. Return: whether that can be had. */
static bool forbid_rings(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Of the test below. Return: the exit status. */
static int read_without_rings(void)
{
	const std::string content = make_file("f");

	if (!forbid_rings()) {
		printf("# skipped: no seccomp\n");
		return 0;
	}
	auto file = open_file("aps://hybrid", "f", true);
	std::vector<FSReadRequest> reqs(200);
	Buffer to(200 * 4096);

	for (size_t i = 0; i < 200; i++) {
		reqs[i].offset = i * 4096;
		reqs[i].len = 4096;
		reqs[i].scratch = to.at + i * 4096;
	}
	bool ok = file->MultiRead(reqs.data(), 200, IOOptions(), nullptr).ok();
	for (size_t i = 0; i < 200; i++)
		ok = ok && reqs[i].status.ok() && reqs[i].result.ToString() == part(content, i * 4096, 4096);
	struct aps_stats s = stats();
	return !(ok && s.backend == APS_BACKEND_SYNC && s.ring_error == -EPERM && s.nr_reads == 200);
}

static void without_io_uring_reads_are_preadv2(void)
{
	fflush(stdout);
	pid_t pid = fork();
	if (!pid)
		become("ringless", 0);
	expect_child(pid);
}

static void a_mode_that_is_none_is_refused(void)
{
	std::shared_ptr<Env> guard;
	Env *env = nullptr;
	Status s = Env::CreateFromUri(ConfigOptions(), "", "aps://spin", &env, &guard);

	EXPECT(!s.ok() && s.ToString().find("aps://hybrid") != std::string::npos);
}

int main(int argc, char **argv)
{
	static const struct tap_test tests[] = {
		TEST(the_same_content_with_either_file_system),
		TEST(reads_are_those_of_the_default_file_system),
		TEST(one_multiread_takes_any_number),
		TEST(reads_that_are_not_waited_for),
		TEST(a_closed_file_is_in_no_ring),
		TEST(eight_threads_read_while_others_write),
		TEST(a_killed_process_keeps_what_it_synced),
		TEST(a_child_after_fork_reads_what_is_open),
		TEST(a_child_closes_what_other_threads_read),
		TEST(without_io_uring_reads_are_preadv2),
		TEST(a_mode_that_is_none_is_refused),
	};
	const char *is = getenv("ROCKSDB_TEST_IS");
	char made[300];
	int status;

	if (argc != (is ? 4 : 3)) {
		fprintf(stderr, "usage: rocksdb-test PLUGIN DIR\n");
		return 2;
	}
	test_plugin = argv[1];
	get_stats = aps_rocksdb_stats;
	if (strcmp(argv[1], "-")) {
		void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

		get_stats = lib ? reinterpret_cast<decltype(get_stats)>(dlsym(lib, "aps_rocksdb_stats")) : nullptr;
	}
	if (!get_stats) {
		printf("# %s: %s\n", argv[1], strcmp(argv[1], "-") ? dlerror() : "is not linked in");
		return 1;
	}
	if (is) {
		dir = argv[2];
		if (!strcmp(is, "ringless"))
			return read_without_rings();
		write_for_ever(atoi(argv[3]));
	}
	snprintf(made, sizeof(made), "%s/rocksdb.XXXXXX", argv[2]);
	if (!mkdtemp(made)) {
		perror(made);
		return 1;
	}
	dir = made;
	alarm(900);
	status = run_tests(tests, sizeof(tests) / sizeof(tests[0]));
	unlink((dir + "/f").c_str());
	rmdir(made);
	return status;
}
