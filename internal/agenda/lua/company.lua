-- The functions that find out what goes with the first of a backlog, and until when it waits for company. They stand
-- between digest.lua and grants.lua; package player says the same in Go.

local company = {}

do

  -- read reads how what waits in a category goes as one, see Digest.Text in Go; nil for not.
  function company.read(text)
    if text == '' then return nil end
    local numbers = {}
    for number in string.gmatch(text, '%d+') do numbers[#numbers + 1] = tonumber(number) end
    local digest = {
      bundles = numbers[1] > 0, by_ladder = numbers[1] == 2, most = numbers[2], alone = numbers[3],
      wait = numbers[4], extend = numbers[5], max = numbers[6], reach = numbers[7], near = numbers[8], moments = {},
    }
    for i = 9, #numbers do digest.moments[i - 8] = numbers[i] end
    return digest
  end

  -- goes_alone reports whether a priority is in no digest.
  local function goes_alone(category_settings, priority)
    return priority <= math.max(category_settings.digest.alone, category_settings.bypass)
  end

  -- begins reports whether the first of a backlog may take others along.
  function company.begins(backlog, category_settings)
    local digest, first = category_settings.digest, backlog.first
    if not digest or digest.bundles and not backlog.bundled then return false end
    if goes_alone(category_settings, first.priority) then return false end
    if first.group == nil then
      local group, frozen = unpack(redis.call('HMGET', partition .. 'n:' .. first.id, F.group, F.frozen))
      first.group, first.frozen = group or '', frozen == '1'
    end
    return first.group ~= '' and not first.frozen
  end

  -- since_if_joining returns since when a notification waits, if it goes with the first of its backlog, and whether it
  -- has expired, and does not go; else nil.
  local function since_if_joining(backlog, category_settings, id)
    if id == backlog.first.id then return nil end
    local group, priority, expires, frozen, accepted, not_before, backed_off = unpack(redis.call('HMGET',
      partition .. 'n:' .. id, F.group, F.priority, F.expires, F.frozen, F.accepted, F.not_before, F.backed_off))
    if group ~= backlog.first.group or frozen or goes_alone(category_settings, tonumber(priority)) then return nil end
    return math.max(tonumber(accepted), tonumber(not_before or 0), tonumber(backed_off or 0)),
      expires ~= false and tonumber(expires) <= now
  end

  -- of returns what goes with the first of a backlog.
  function company.of(backlog, category_settings)
    local items, most = {}, category_settings.digest.most - 1
    for _, id in ipairs(redis.call('ZRANGE', backlog.key, '0', digits(category_settings.digest.reach))) do
      if #items == most then break end
      local since, expired = since_if_joining(backlog, category_settings, id)
      if since and not expired then items[#items + 1] = id end
    end
    return items
  end

  -- newest_with returns since when the last of a backlog waits that goes with its first. What has expired counts until
  -- it is taken out: then its user is woken.
  local function newest_with(backlog, category_settings)
    for _, id in ipairs(redis.call('ZREVRANGE', backlog.key, '0', digits(category_settings.digest.near - 1))) do
      local since = since_if_joining(backlog, category_settings, id)
      if since then return since end
    end
  end

  -- until_when returns until when the first of a backlog waits for company; 0 when it does not, or its digest is full.
  function company.until_when(backlog, category_settings)
    local digest = category_settings.digest
    if not digest or digest.wait == 0 and digest.extend == 0 and #digest.moments == 0 or
      not company.begins(backlog, category_settings) then
      return 0
    end
    local since, till = math.max(backlog.first.accepted, backlog.first.not_before), nil
    if digest.wait > 0 then
      till = since + digest.wait
    elseif digest.extend > 0 then
      till = math.min(math.max(since, newest_with(backlog, category_settings) or 0) + digest.extend, since + digest.max)
    else
      for i = #digest.moments, 1, -1 do
        if digest.moments[i] > since then till = digest.moments[i] end
      end
    end
    if not till then return 0 end
    if till > now and size_of(backlog) >= digest.most and #company.of(backlog, category_settings) == digest.most - 1 then
      return 0
    end
    return till
  end
end
