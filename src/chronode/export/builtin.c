/* Functions of generated code that needs no library. The polynomials are those of Cephes (S. Moshier), as in most
   small math libraries; errors are a few units in the last place. */

static float m_abs(float x)
{
    return x < 0.0f ? -x : x;
}

static float m_floor(float x)
{
    float whole;
    if (!(x > -8388608.0f && x < 8388608.0f)) {
        return x;
    }
    whole = (float)(int)x;
    return whole > x ? whole - 1.0f : whole;
}

static float m_round(float x)
{
    const float below = m_floor(x);
    const float rest = x - below;
    if (rest != 0.5f) {
        return rest < 0.5f ? below : below + 1.0f;
    }
    return m_floor(0.5f * below) * 2.0f == below ? below : below + 1.0f;
}

static float m_bits(unsigned int bits)
{
    union { unsigned int bits; float value; } u;
    u.bits = bits;
    return u.value;
}

static float m_exp(float x)
{
    float n, r, p;
    if (!(x < 88.72283f)) {
        return x > 0.0f ? 1.0f / 0.0f : x;
    }
    if (x < -87.0f) {
        return 0.0f;
    }
    n = m_floor(1.44269504f * x + 0.5f);
    r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    n -= 1.0f; /* in two steps, because 2^128 is not a float */
    return p * m_bits((unsigned int)((int)n + 127) << 23) * 2.0f;
}

static float m_expm1(float x)
{
    float p;
    if (x > 0.5f || x < -0.5f) {
        return m_exp(x) - 1.0f;
    }
    p = 1.9841270e-4f;
    p = p * x + 1.3888889e-3f;
    p = p * x + 8.3333333e-3f;
    p = p * x + 4.1666667e-2f;
    p = p * x + 1.6666667e-1f;
    p = p * x + 0.5f;
    return p * x * x + x;
}

static float m_tanh(float x)
{
    const float size = m_abs(x);
    float p, square;
    if (size > 9.0f) {
        return x > 0.0f ? 1.0f : -1.0f;
    }
    if (size >= 0.625f) {
        p = 1.0f - 2.0f / (m_exp(2.0f * size) + 1.0f);
        return x > 0.0f ? p : -p;
    }
    square = x * x;
    p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    return p * square * x + x;
}

static float m_log(float x)
{
    union { unsigned int bits; float value; } u;
    float n, r, p;
    if (!(x > 0.0f)) {
        return x == 0.0f ? -1.0f / 0.0f : 0.0f / 0.0f;
    }
    if (x > 3.402823466e+38f) {
        return x;
    }
    n = 0.0f;
    if (x < 1.17549435e-38f) {
        x *= 16777216.0f;
        n = -24.0f;
    }
    u.value = x;
    n += (float)((int)(u.bits >> 23) - 126);
    u.bits = (u.bits & 0x007fffffu) | 0x3f000000u;
    r = u.value;
    if (r < 0.707106781f) {
        n -= 1.0f;
        r = r + r - 1.0f;
    } else {
        r -= 1.0f;
    }
    p = 7.0376836292e-2f;
    p = p * r - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    p = p * r * r * r - 2.12194440e-4f * n - 0.5f * r * r;
    return r + p + 0.693359375f * n;
}

static float m_log1p(float x)
{
    const float y = 1.0f + x;
    /* Corrects the rounding of 1 + x: log(1 + x) = log(y) x / (y - 1). */
    return y == 1.0f ? x : (y > 3.402823466e+38f ? y : m_log(y) * (x / (y - 1.0f)));
}

static float m_sqrt(float x)
{
    union { unsigned int bits; float value; } u;
    float scale = 1.0f;
    if (!(x > 0.0f) || x > 3.402823466e+38f) {
        return x < 0.0f ? 0.0f / 0.0f : x;
    }
    if (x < 1.17549435e-38f) {
        x *= 16777216.0f;
        scale = 1.0f / 4096.0f;
    }
    u.value = x;
    u.bits = (u.bits >> 1) + 0x1fbd1df5u;
    u.value = 0.5f * (u.value + x / u.value);
    u.value = 0.5f * (u.value + x / u.value);
    u.value = 0.5f * (u.value + x / u.value);
    return u.value * scale;
}

static float m_wave(float x, int quarter)
{
    const float n = m_floor(0.636619772f * x + 0.5f);
    const float r = ((x - n * 1.5703125f) - n * 4.83751297e-4f) - n * 7.54978942e-8f;
    const float square = r * r;
    const int part = ((int)(n - 4.0f * m_floor(0.25f * n)) + quarter) & 3;
    float p;
    if (part & 1) {
        p = 2.443315711809948e-5f;
        p = p * square - 1.388731625493765e-3f;
        p = p * square + 4.166664568298827e-2f;
        p = p * square * square - 0.5f * square + 1.0f;
    } else {
        p = -1.9515295891e-4f;
        p = p * square + 8.3321608736e-3f;
        p = p * square - 1.6666654611e-1f;
        p = p * square * r + r;
    }
    return part & 2 ? -p : p;
}

static float m_sin(float x)
{
    return m_wave(x, 0);
}

static float m_cos(float x)
{
    return m_wave(x, 1);
}

static float m_erf(float x)
{
    /* Abramowitz and Stegun 7.1.26 with its error, 1.5e-7, everywhere but near 0, where the series is used. */
    const float size = m_abs(x);
    float t, p;
    if (size < 0.5f) {
        t = x * x;
        p = -7.5757576e-4f;
        p = p * t + 4.6296296e-3f;
        p = p * t - 2.3809524e-2f;
        p = p * t + 0.1f;
        p = p * t - 3.3333333e-1f;
        return 1.12837917f * (p * t * x + x);
    }
    t = 1.0f / (1.0f + 0.3275911f * size);
    p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    p = 1.0f - p * t * m_exp(-size * size);
    return x > 0.0f ? p : -p;
}

static float m_atan(float x)
{
    /* Cephes: above tan(pi/8), the argument is turned by pi/4 or pi/2. */
    const float size = m_abs(x);
    const float turn = size > 2.414213562f ? 1.570796327f : (size > 0.4142135624f ? 0.7853981634f : 0.0f);
    const float r = size > 2.414213562f ? -1.0f / size : (size > 0.4142135624f ? (size - 1.0f) / (size + 1.0f) : size);
    const float square = r * r;
    float p = 8.05374449538e-2f;
    p = p * square - 1.38776856032e-1f;
    p = p * square + 1.99777106478e-1f;
    p = p * square - 3.33329491539e-1f;
    p = turn + (p * square * r + r);
    return x < 0.0f ? -p : p;
}

static float m_pow(float x, float y)
{
    const float size = x < 0.0f ? -x : x;
    float p;
    if (y == 0.0f) {
        return 1.0f;
    }
    if (x == 0.0f) {
        return y > 0.0f ? 0.0f : 1.0f / 0.0f;
    }
    if (x < 0.0f && m_floor(y) != y) {
        return 0.0f / 0.0f;
    }
    p = m_exp(y * m_log(size));
    return x < 0.0f && m_floor(0.5f * y) * 2.0f != y ? -p : p;
}

static float m_remainder(float x, float y)
{
    return x - m_floor(x / y) * y;
}
