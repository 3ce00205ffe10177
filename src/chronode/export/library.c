/* Functions of generated code that uses math.h. */

static float m_abs(float x)
{
    return fabsf(x);
}

static float m_exp(float x)
{
    return expf(x);
}

static float m_tanh(float x)
{
    return tanhf(x);
}

static float m_log(float x)
{
    return logf(x);
}

static float m_log1p(float x)
{
    return log1pf(x);
}

static float m_expm1(float x)
{
    return expm1f(x);
}

static float m_sqrt(float x)
{
    return sqrtf(x);
}

static float m_sin(float x)
{
    return sinf(x);
}

static float m_cos(float x)
{
    return cosf(x);
}

static float m_erf(float x)
{
    return erff(x);
}

static float m_atan(float x)
{
    return atanf(x);
}

static float m_round(float x)
{
    return rintf(x);
}

static float m_floor(float x)
{
    return floorf(x);
}

static float m_pow(float x, float y)
{
    return powf(x, y);
}

static float m_remainder(float x, float y)
{
    const float r = fmodf(x, y);
    return r != 0.0f && (r < 0.0f) != (y < 0.0f) ? r + y : r;
}
