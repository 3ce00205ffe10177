// A program for the thread sanitizer (`make test-tsan`): the pool, and the IndRNN kernel forward and backward on it, called
// by several threads at once, again in a forked child, and with a block that fails. It checks the sums as well.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../../../src/chronode/kernels/native/elementwise.cpp"

namespace {

constexpr int kThreads = 4, kCallers = 3, kRounds = 20;

void check(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

void use_pool() {
  constexpr int64_t kBlocks = 50;
  for (int round = 0; round < kRounds; ++round) {
    chronode::BlockSums<double> sums(kBlocks, 3);
    chronode::parallel_blocks(
        kBlocks, kThreads,
        [&](int64_t block, int) {
          double* own = sums.zeroed(block);
          for (int i = 0; i < 3; ++i) own[i] += static_cast<double>(block + i);
        },
        chronode::Threads::kOwnPool);
    double total[3];
    sums.sum_into(total, kThreads);
    check(total[0] == kBlocks * (kBlocks - 1) / 2.0 && total[2] == total[0] + 2 * kBlocks, "wrong sum");
    const int status = chronode::guarded(nullptr, [&] {
      chronode::parallel_blocks(
          kBlocks, kThreads, [&](int64_t block, int) { if (block == 7) throw std::bad_alloc(); },
          chronode::Threads::kOwnPool);
    });
    check(status == chronode::kOutOfMemory, "the failure of a block was lost");
  }
}

void use_kernel() {
  constexpr int64_t kSteps = 6, kBatch = 20, kHidden = 19, kAll = kSteps * kBatch * kHidden;
  std::vector<float> a(kAll, 0.5f), h0(kBatch * kHidden, 1), weights(kHidden, 0.25f);
  std::vector<float> states(kAll), h_end(kBatch * kHidden), da(kAll), dh0(kBatch * kHidden), dweights(kHidden);
  std::vector<int64_t> lengths(kBatch, kSteps);
  lengths[3] = 1;
  const auto array = [](auto& v) {
    return chronode::Array<std::remove_reference_t<decltype(v[0])>>{v.data(), static_cast<int64_t>(v.size() * sizeof v[0])};
  };
  const auto input = [&](auto& v) {
    return chronode::Array<const std::remove_reference_t<decltype(v[0])>>{array(v).data, array(v).bytes};
  };
  const chronode::Array<float> none{nullptr, 0};
  const chronode::Array<const float> nothing{nullptr, 0};
  char failure[chronode::kFailureBytes];
  for (int round = 0; round < kRounds; ++round) {
    check(chronode_elementwise_forward_f32(input(a), input(h0), input(weights), nothing, input(lengths), kSteps, kBatch,
                                           kHidden, 0, array(states), none, 0, array(h_end), kThreads, nullptr, failure) == 0,
          failure);
    check(chronode_elementwise_backward_f32(input(a), input(h0), input(weights), nothing, input(lengths), kSteps, kBatch,
                                            kHidden, 0, input(states), input(states), 0, nothing, array(da), array(dh0),
                                            array(dweights), kThreads, nullptr, failure) == 0,
          failure);
    check(h_end[3 * kHidden] == 0.75f && states[3 * kHidden + kBatch * kHidden] == 0, "wrong states");
  }
}

void use_all() {
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) callers.emplace_back([i] { i % 2 ? use_kernel() : use_pool(); });
  for (std::thread& caller : callers) caller.join();
}

}  // namespace

int main() {
  use_all();
  const pid_t child = fork();
  if (child == 0) {
    use_pool();
    use_kernel();
    std::_Exit(0);
  }
  int status = 1;
  check(waitpid(child, &status, 0) == child && status == 0, "the forked child failed");
  use_all();
  std::puts("no data race");
}
