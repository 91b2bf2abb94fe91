/* A libcuda that says what it is asked: for launchers where there is no GPU. CODES is a list of
 * symbol=bytes,bytes,…: what each parameter of a kernel has. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *loaded[8];
static int count, maps;

int cuInit(unsigned flags) { (void)flags; return getenv("NO_DEVICE") ? 100 : 0; }
int cuDeviceGet(int *device, int n) { *device = n; return 0; }
int cuDeviceGetAttribute(int *value, int what, int device)
{
    (void)device;
    *value = what == 16 ? 132 : what == 75 ? 8 : 0;
    return 0;
}
int cuCtxGetCurrent(void **context) { *context = NULL; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &count; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuModuleLoadData(void **module, const void *image)
{
    if (getenv("OTHER_CHIP"))
        return 209;
    *module = (void *)image;
    return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *symbol)
{
    (void)module;
    loaded[count] = symbol;
    *function = (void *)(uintptr_t)(++count);
    return 0;
}
int cuFuncSetAttribute(void *function, int what, int value) { (void)function; return what != 8 || value > 232448; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *f, int threads, size_t shared)
{
    (void)f; (void)threads; (void)shared;
    *blocks = 1;
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra)
{
    int code = (int)(uintptr_t)function;
    const char *sizes = getenv("SIZES");
    (void)by; (void)bz; (void)extra;
    printf("launch %d grid %u %u %u threads %u shared %u stream %d:", code, gx, gy, gz, bx, shared,
           stream != NULL);
    for (int n = 0; parameters[n] && sizes && *sizes; n++) {
        int size = atoi(sizes);
        sizes = strchr(sizes, ',') ? strchr(sizes, ',') + 1 : "";
        if (size == 128) {
            printf(" map%d", *(int *)parameters[n]);
            if ((uintptr_t)parameters[n] % 64)
                printf("(misaligned)");
        } else {
            int64_t value = 0;
            memcpy(&value, parameters[n], (size_t)size);
            printf(" %lld", (long long)value);
        }
    }
    printf("\n");
    return 0;
}
struct launch {
    unsigned grid[3], block[3], shared;
    void *stream;
    const int *attributes;
    unsigned count;
};
int cuLaunchKernelEx(const struct launch *l, void *function, void **parameters, void **extra)
{
    printf("%u attribute %d %d: ", l->count, l->attributes[0], l->attributes[2]);
    return cuLaunchKernel(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                          l->block[2], l->shared, l->stream, parameters, extra);
}
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *extents,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *ones,
                           int interleave, int swizzle, int promotion, int outside)
{
    printf("map %d type %d base %llu:", ++maps, type, (unsigned long long)(uintptr_t)base);
    for (unsigned n = 0; n < rank; n++)
        printf(" %llu/%u/%u", (unsigned long long)extents[n], box[n], ones[n]);
    for (unsigned n = 0; n + 1 < rank; n++)
        printf(" step %llu", (unsigned long long)strides[n]);
    printf(" modes %d %d %d %d\n", interleave, swizzle, promotion, outside);
    *(int *)map = maps;
    return 0;
}
int cuTensorMapEncodeIm2col(void *map, int type, unsigned rank, void *base,
                            const uint64_t *extents, const uint64_t *strides, const int *firsts,
                            const int *lasts, unsigned channels, unsigned places,
                            const uint32_t *ones, int interleave, int swizzle, int promotion,
                            int outside)
{
    printf("walked map %d type %d base %llu:", ++maps, type, (unsigned long long)(uintptr_t)base);
    for (unsigned n = 0; n < rank; n++)
        printf(" %llu/%u", (unsigned long long)extents[n], ones[n]);
    for (unsigned n = 0; n + 1 < rank; n++)
        printf(" step %llu", (unsigned long long)strides[n]);
    for (unsigned n = 0; n + 2 < rank; n++)
        printf(" from %d to %d", firsts[n], lasts[n]);
    printf(" box %u %u modes %d %d %d %d\n", channels, places, interleave, swizzle, promotion, outside);
    *(int *)map = maps;
    return 0;
}
int cuGetErrorString(int code, const char **text)
{
    *text = code == 100 ? "no CUDA-capable device is detected" : "unknown";
    return 0;
}
int cuMemAlloc_v2(uint64_t *place, size_t size)
{
    *place = (uint64_t)(uintptr_t)aligned_alloc(256, (size + 255) / 256 * 256);
    return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)(uintptr_t)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)(uintptr_t)from, size); return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuEventCreate(void **event, unsigned flags) { (void)flags; *event = &count; return 0; }
int cuEventRecord(void *event, void *stream) { (void)event; (void)stream; return 0; }
int cuEventSynchronize(void *event) { (void)event; return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { (void)a; (void)b; *ms = 0.5f; return 0; }
