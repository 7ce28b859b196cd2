-- A fixed window begins with its first admission: `from` is its start (nil: none yet), `load` the admissions in it.
-- Limits over the same window share it, since they count the same admissions.

local function passed(c, rule, at) return not c.from or at >= c.from + rule.per end

return {
  passed = passed,

  -- bound is exact when nothing is planned ahead. Otherwise it assumes that the coming windows are filled without a
  -- break, and is never earlier than a rolling window would allow after those planned. That is exact for a backlog, at
  -- a constant cost.
  bound = function(c, rule, now, ahead)
    local start, used = c.from, c.load
    if ahead.count > 0 and passed(c, rule, now) then start, used = now, 0 end
    if not start then return nil end
    local beyond = ahead.count - math.max(0, rule.max - used)
    if beyond < 0 then return start end
    local free = start + (1 + math.floor(beyond / rule.max)) * rule.per
    if ahead.count >= rule.max then free = math.max(free, ahead.newest(rule.max) + rule.per) end
    return free
  end,

  charge = function(c, rule, at)
    if passed(c, rule, at) then c.from, c.load = at, 1 else c.load = c.load + 1 end
  end,

  refund = function(c, rule, at)
    if at < c.from or passed(c, rule, at) then return false end
    c.load = c.load - 1
    return true
  end,

  usage = function(c, rule, now)
    if passed(c, rule, now) or c.load == 0 then return 0, 0 end
    return c.load, c.from + rule.per
  end,
}
