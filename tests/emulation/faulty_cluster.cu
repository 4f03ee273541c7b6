// Each block of a cluster reads what its neighbour wrote to shared memory; and, where FAULT names one, makes a mistake.
#include "cluster.cuh"

enum Fault { NONE, MISSING_CLUSTER_BARRIER, MISSING_LAST_CLUSTER_BARRIER, NO_SUCH_RANK };

__device__ constexpr bool is(Fault fault) { return fault == FAULT; }

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) faulty_cluster(const float* from, float* to) {
    DYNAMIC_SHARED(bytes);
    float* const own = reinterpret_cast<float*>(bytes);
    const int rank = blockIdx.x % CLUSTER, next = (rank + 1) % CLUSTER, place = blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();  // from here on a block goes as far as it can before another does
    own[threadIdx.x] = from[place];
    if (!is(MISSING_CLUSTER_BARRIER)) cluster_barrier();
    to[place] = at_rank(own, is(NO_SUCH_RANK) ? CLUSTER : next)[threadIdx.x];
    if (!is(MISSING_LAST_CLUSTER_BARRIER)) cluster_barrier();
}
